import { readKernelFile } from './kernel/kernel-file.ts';
import { parseReading } from './parse-reading.ts';
import type { SeriesUnits } from './parse-reading.ts';
import { sourceFailed } from './source.ts';
import type { PolledSource } from './source.ts';

/** The content of a file: a number, JSON, or a text. */
export function fileSource(path: string): PolledSource {
  const units: SeriesUnits = new Map();
  return {
    kind: 'polled',
    read: async (signal) => {
      const reading = parseReading(await readKernelFile(path, signal), units);
      if (reading === undefined) throw sourceFailed(path, 'is empty');
      return reading;
    },
  };
}
