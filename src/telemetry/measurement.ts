import { Reduction } from './reduction.ts';
import type { MeasurementSettings, OutputSettings } from './settings.ts';
import { atPointer } from './sources/parse-reading.ts';
import type { Reading } from './sources/source.ts';

/** Processes the readings of one source: for each output its part, reduced. */
export class Measurement {
  readonly #outputs: readonly { readonly settings: OutputSettings; readonly reduction: Reduction }[];

  constructor({ outputs }: Pick<MeasurementSettings, 'outputs'>) {
    this.#outputs = outputs.map((settings) => ({ settings, reduction: new Reduction(settings.reduction) }));
  }

  /** Returns the values to send now, each with its destination. Calls `onDrop` for each part that it leaves out. */
  push(
    reading: Reading,
    nowMs: number,
    onDrop: (why: string) => void,
  ): readonly { readonly to: OutputSettings['to']; readonly value: unknown }[] {
    return this.#outputs.flatMap(({ settings, reduction }) => {
      const part = atPointer(reading, settings.pointer);
      const value = part === undefined ? undefined : reduction.push(part, nowMs, onDrop);
      return value === undefined ? [] : [{ to: settings.to, value }];
    });
  }
}
