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

  /** The values that are to be sent now, and where to. */
  push(reading: Reading, nowMs: number): readonly { readonly to: OutputSettings['to']; readonly value: unknown }[] {
    return this.#outputs.flatMap(({ settings, reduction }) => {
      const part = atPointer(reading, settings.pointer);
      const value = part === undefined ? undefined : reduction.push(part, nowMs);
      return value === undefined ? [] : [{ to: settings.to, value }];
    });
  }
}
