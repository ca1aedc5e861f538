import { execSource } from './exec.ts';
import type { PolledSource } from './source.ts';

/**
 * A line of a GPIO chip, read by gpioget of libgpiod: 0 or 1. `version` is libgpiod's, whose programs differ:
 * version 1 takes chip and offset; version 2 takes `--chip`, and prints `"3"=active` unless it gets `--numeric`.
 */
export function gpioSource(chip: string, line: number, version: 1 | 2, timeoutMs: number): PolledSource {
  const numbers = ['--numeric', '--chip', chip, String(line)] as const;
  return execSource({ command: version === 1 ? ['gpioget', chip, String(line)] : ['gpioget', ...numbers] }, timeoutMs);
}
