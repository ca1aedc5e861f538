import { doubleOf } from '../system/json-value.ts';
import { sampleOf } from './reading-text.ts';
import type { ReductionSettings } from './settings.ts';

interface Period {
  readonly startedMs: number;
  values: number;
  sum: number;
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
    const needsNumber = this.#settings.deadband !== undefined && isNumber(this.#sent?.value);
    const value = needsNumber && !isNumber(reading) ? undefined : scaled(reading, this.#settings);
    if (value === undefined) onDrop(`${sampleOf(reading)} is not a finite number`);
    if (this.#settings.over === undefined) return this.#ifSignificant(value, nowMs);
    const reduced = this.end(nowMs);
    if (value !== undefined) {
      this.#period ??= { startedMs: nowMs, values: 0, sum: 0, min: value, max: value, last: value };
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
    return this.#ifSignificant(aggregate === 'mean' ? period.sum / period.values : period[aggregate], nowMs);
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
    return Math.abs(number - before) > band;
  }
}

function isNumber(value: unknown): boolean {
  return Number.isFinite(doubleOf(value));
}

/** Returns the scaled reading, or undefined if it is null, or not a finite number where one is needed. */
export function scaled(
  reading: unknown,
  { scale, offset, over }: Pick<ReductionSettings, 'scale' | 'offset' | 'over'>,
): unknown {
  const isAsItIs = scale === 1 && offset === 0;
  const number = doubleOf(reading);
  if (Number.isFinite(number)) return isAsItIs ? reading : withoutNoise(number * scale + offset);
  const isNoValue = reading === null || typeof reading === 'number' || JSON.isRawJSON(reading);
  const needsNumber = !isAsItIs || (over !== undefined && over.aggregate !== 'last');
  return isNoValue || needsNumber ? undefined : reading;
}

/** Returns a fraction with 15 digits, all that a double keeps: 13 × 0.001 is 0.013, and not 0.013000000000000001. */
function withoutNoise(number: number): number {
  return Number.isInteger(number) ? number : Number(number.toPrecision(15));
}

function join(period: Period, value: unknown): void {
  const number = doubleOf(value);
  period.values += 1;
  period.sum += number;
  if (number < doubleOf(period.min)) period.min = value;
  if (number > doubleOf(period.max)) period.max = value;
  period.last = value;
}
