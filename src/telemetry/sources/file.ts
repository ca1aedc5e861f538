import { absolutePath } from '../../system/settings/values.ts';
import { readKernelFile } from './kernel/kernel-file.ts';
import { parseReading } from './parse-reading.ts';
import { sourceFailed, sourceKind } from './source.ts';
import type { PolledSource } from './source.ts';

/** The content of a file: a number, JSON, or a text. */
export function fileSource(path: string): PolledSource {
  return {
    kind: 'polled',
    read: async (signal) => {
      const reading = parseReading(await readKernelFile(path, signal));
      if (reading === undefined) throw sourceFailed(path, 'is empty');
      return reading;
    },
  };
}

export const file = sourceKind({
  name: 'file',
  settings: { path: absolutePath('/run/level') },
  create: ({ path }) => fileSource(path),
  place: ({ path }) => path,
  advice: () => 'check that the file is there, and that whoever writes it runs',
});
