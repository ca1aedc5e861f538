import type { DropReason } from '../control/telemetry-protocol.ts';
import { doubleOf, isNest } from '../system/json-value.ts';
import { Downsampler, needsNumber } from './downsampling.ts';
import { sampleOf } from './reading-text.ts';
import type { MeasurementSettings, OutputSettings } from './settings.ts';
import { atPointer, numberIn } from './sources/parse-reading.ts';
import type { SeriesUnits } from './sources/parse-reading.ts';
import type { Reading } from './sources/source.ts';

/** Called for what is left out; `why` ends with a sample of it. */
export type OnDrop = (reason: DropReason, why: string) => void;

interface Output {
  readonly settings: OutputSettings;
  readonly reduction: Downsampler;
  /** When its pointer last found something. */
  foundMs: number;
}

/**
 * A part that a pointer found so recently is optional: a device may send temperature and battery in turns. A part that
 * its pointer never found, or not for longer, is missing.
 */
export const OPTIONAL_MS = 10 * 60_000;

/** Processes the readings of one source: for each output its part, reduced. */
export class Measurement {
  readonly #outputs: readonly Output[];
  readonly #ignore: readonly number[];
  readonly #units: SeriesUnits = new Map();

  constructor({ outputs, ignore }: Pick<MeasurementSettings, 'outputs' | 'ignore'>) {
    const of = (settings: OutputSettings): Output => ({
      settings,
      reduction: new Downsampler(settings.reduction),
      foundMs: Number.NEGATIVE_INFINITY,
    });
    this.#outputs = outputs.map(of);
    this.#ignore = ignore;
  }

  /**
   * Calls `onValue` for each value to send now, and `onDrop` for each part that it leaves out. Returns true if an output
   * uses the reading.
   */
  push(
    reading: Reading,
    nowMs: number,
    onValue: (to: OutputSettings['to'], value: unknown) => void,
    onDrop: OnDrop,
  ): boolean {
    let used = 0;
    const pointed = this.#outputs.find(({ settings }) => settings.pointer !== '');
    if (pointed !== undefined && !isNest(reading)) {
      const what = typeof reading === 'string' ? 'not JSON' : 'not an object';
      onDrop('malformed', `${what}, so it has no ${pointed.settings.pointer}: ${sampleOf(reading)}`);
    }
    for (const output of this.#outputs) {
      const part = this.#partOf(reading, output, nowMs, onDrop);
      if (part === undefined) continue;
      used += 1;
      const { pointer } = output.settings;
      const onNaN = (why: string): void => {
        used -= 1;
        onDrop('not-a-number', pointer === '' ? why : `${pointer}: ${why}`);
      };
      const value = output.reduction.push(part, nowMs, onNaN);
      if (value !== undefined) onValue(output.settings.to, value);
    }
    return used > 0;
  }

  /** The time at which the first of the open periods is over; infinity: none is open. */
  get endsMs(): number {
    return Math.min(...this.#outputs.map(({ reduction }) => reduction.endsMs));
  }

  /** Ends the periods that are over at this time, or all of them. Calls `onValue` for each value to send. */
  end(onValue: (to: OutputSettings['to'], value: unknown) => void, nowMs = Number.POSITIVE_INFINITY): void {
    for (const { settings, reduction } of this.#outputs) {
      const value = reduction.end(nowMs);
      if (value !== undefined) onValue(settings.to, value);
    }
  }

  /** Returns the part of a reading for an output, or undefined if there is none. */
  #partOf(reading: Reading, output: Output, nowMs: number, onDrop: OnDrop): unknown {
    const { pointer } = output.settings;
    const part = partFor(output.settings, reading, this.#units);
    if (part === undefined) {
      const isMissing = isNest(reading) && nowMs - output.foundMs > OPTIONAL_MS;
      if (isMissing) onDrop('no-match', `nothing at ${pointer} in ${sampleOf(reading)}`);
      return undefined;
    }
    output.foundMs = nowMs;
    if (!isIgnored(part, this.#ignore)) return part;
    onDrop('ignored', `the configuration ignores ${sampleOf(part)}`);
    return undefined;
  }
}

/**
 * Returns the part of a reading that an output sends, or undefined if there is none. If the settings need or compare
 * numbers, a text in JSON is read like a bare payload.
 */
export function partFor({ pointer, reduction }: OutputSettings, reading: Reading, units?: SeriesUnits): unknown {
  const part = atPointer(reading, pointer);
  const isNumeric = needsNumber(reduction) || reduction.deadband !== undefined;
  return isNumeric && typeof part === 'string' ? (numberIn(part, units, pointer) ?? part) : part;
}

/** True if the configuration ignores this number, also if it is a text in JSON. */
export function isIgnored(part: unknown, ignore: readonly number[]): boolean {
  return ignore.length > 0 && ignore.includes(doubleOf(typeof part === 'string' ? numberIn(part) : part));
}
