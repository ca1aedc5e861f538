import * as z from 'zod';

import { text, wholeNumber } from '../../system/settings/values.ts';
import { execSource } from './exec.ts';
import { sourceKind } from './source.ts';
import type { PolledSource } from './source.ts';

/**
 * A line of a GPIO chip, read by gpioget of libgpiod: 0 or 1. `version` is that of libgpiod, whose programs differ:
 * version 1 takes chip and offset; version 2 takes `--chip`, and prints `"3"=active` unless it gets `--numeric`.
 */
export function gpioSource(chip: string, line: number, version: 1 | 2, timeoutMs: number): PolledSource {
  const numbers = ['--numeric', '--chip', chip, String(line)] as const;
  return execSource({ command: version === 1 ? ['gpioget', chip, String(line)] : ['gpioget', ...numbers] }, timeoutMs);
}

export const gpio = sourceKind({
  name: 'gpio',
  settings: {
    chip: text(),
    line: wholeNumber(0, 4_095),
    version: z.literal([1, 2], { error: '1 or 2' }).default(1).describe('Of libgpiod’s tools'),
  },
  create: ({ chip, line, version }, { timeoutMs }) => gpioSource(chip, line, version, timeoutMs),
  place: ({ chip, line }) => `${chip} line ${line}`,
  advice: () => 'gpioinfo, of the package gpiod, shows the chips and their lines',
});
