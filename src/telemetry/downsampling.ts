import { doubleOf, withoutNoise } from '../system/json-value.ts';
import { sampleOf } from './reading-text.ts';
import type { ReductionSettings } from './settings.ts';

interface Period {
  readonly startedMs: number;
  values: number;
  sum: number;
  /** The part of the sum that its additions lost (Kahan, https://doi.org/10.1145/363707.363723). */
  lost: number;
  min: unknown;
  max: unknown;
  last: unknown;
}

/** Reduces readings. It depends only on the readings before. */
export class Downsampler {
  readonly #settings: ReductionSettings;
  #sent: { readonly value: unknown; readonly atMs: number } | undefined;
  #period: Period | undefined;

  constructor(settings: ReductionSettings) {
    this.#settings = settings;
  }

  /** Returns the value to send now, or undefined if there is none. Calls `onDrop` for a reading that it leaves out. */
  push(reading: unknown, nowMs: number, onDrop: (why: string) => void): unknown {
    const isCompared = this.#settings.deadband !== undefined && isNumber(this.#sent?.value);
    const value = isCompared && !isNumber(reading) ? undefined : scaled(reading, this.#settings);
    if (value === undefined) onDrop(`${sampleOf(reading)} is not a finite number`);
    if (this.#settings.over === undefined) return this.#ifSignificant(value, nowMs);
    const reduced = this.end(nowMs);
    if (value !== undefined) {
      this.#period ??= { startedMs: nowMs, values: 0, sum: 0, lost: 0, min: value, max: value, last: value };
      join(this.#period, value);
    }
    return reduced;
  }

  /** The time at which the open period is over; infinity: none is open. */
  get endsMs(): number {
    const { over } = this.#settings;
    const period = this.#period;
    return over === undefined || period === undefined ? Number.POSITIVE_INFINITY : period.startedMs + over.periodMs;
  }

  /** Ends the open period if it is over. Returns its value to send, or undefined if there is none. */
  end(nowMs: number): unknown {
    const { over } = this.#settings;
    const period = this.#period;
    if (over === undefined || period === undefined || nowMs < this.endsMs) return undefined;
    this.#period = undefined;
    const { aggregate } = over;
    return this.#ifSignificant(
      aggregate === 'mean' ? withoutNoise(period.sum / period.values) : period[aggregate],
      nowMs,
    );
  }

  #ifSignificant(value: unknown, nowMs: number): unknown {
    if (value === undefined || !this.#isSignificant(value, nowMs)) return undefined;
    this.#sent = { value, atMs: nowMs };
    return value;
  }

  #isSignificant(value: unknown, nowMs: number): boolean {
    const { deadband, heartbeatMs } = this.#settings;
    const sent = this.#sent;
    if (deadband === undefined || sent === undefined) return true;
    if (heartbeatMs !== undefined && nowMs - sent.atMs >= heartbeatMs) return true;
    if (!isNumber(value) || !isNumber(sent.value)) return JSON.stringify(value) !== JSON.stringify(sent.value);
    const [number, before] = [doubleOf(value), doubleOf(sent.value)];
    const band = deadband.kind === 'absolute' ? deadband.value : Math.abs(before) * deadband.value;
    const noise = Number.EPSILON * Math.max(Math.abs(number), Math.abs(before));
    return Math.abs(number - before) - band > noise;
  }
}

function isNumber(value: unknown): boolean {
  return Number.isFinite(doubleOf(value));
}

type Scaling = Pick<ReductionSettings, 'scale' | 'offset' | 'over'>;

/** Returns the scaled reading, or undefined if it is null, or not a finite number where one is needed. */
export function scaled(reading: unknown, settings: Scaling): unknown {
  const { scale = 1, offset = 0 } = settings;
  const number = doubleOf(reading);
  if (Number.isFinite(number)) return scale === 1 && offset === 0 ? reading : withoutNoise(number * scale + offset);
  const isNoValue = reading === null || typeof reading === 'number' || JSON.isRawJSON(reading);
  return isNoValue || needsNumber(settings) ? undefined : reading;
}

/** True if the settings of an output demand a number. */
export function needsNumber({ scale, offset, over }: Scaling): boolean {
  return scale !== undefined || offset !== undefined || (over !== undefined && over.aggregate !== 'last');
}

function join(period: Period, value: unknown): void {
  const number = doubleOf(value);
  period.values += 1;
  const added = number - period.lost;
  const sum = period.sum + added;
  period.lost = sum - period.sum - added;
  period.sum = sum;
  if (number < doubleOf(period.min)) period.min = value;
  if (number > doubleOf(period.max)) period.max = value;
  period.last = value;
}
