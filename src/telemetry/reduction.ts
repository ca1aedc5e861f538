import type { ReductionSettings } from './settings.ts';

/** Reduces readings. It depends only on the readings before. */
export class Reduction {
  readonly #settings: ReductionSettings;
  #sent: { readonly value: unknown; readonly atMs: number } | undefined;
  #period:
    | { readonly startedMs: number; values: number; sum: number; min: number; max: number; last: unknown }
    | undefined;

  constructor(settings: ReductionSettings) {
    this.#settings = settings;
  }

  /** The value that is to be sent now; undefined: none. */
  push(reading: unknown, nowMs: number): unknown {
    const { scale, offset, over } = this.#settings;
    const value = typeof reading === 'number' ? reading * scale + offset : reading;
    const reduced = over === undefined ? value : this.#gather(value, nowMs, over);
    if (reduced === undefined || !this.#isNews(reduced, nowMs)) return undefined;
    this.#sent = { value: reduced, atMs: nowMs };
    return reduced;
  }

  /** Gathers the readings of a period. The first reading after the period ends it, and begins the next one. */
  #gather(value: unknown, nowMs: number, over: NonNullable<ReductionSettings['over']>): unknown {
    const period = this.#period;
    const number = typeof value === 'number' ? value : Number.NaN;
    if (period !== undefined && nowMs - period.startedMs < over.periodMs) {
      period.values += 1;
      period.sum += number;
      period.min = Math.min(period.min, number);
      period.max = Math.max(period.max, number);
      period.last = value;
      return undefined;
    }
    this.#period = { startedMs: nowMs, values: 1, sum: number, min: number, max: number, last: value };
    if (period === undefined) return undefined;
    if (over.keep === 'last' || Number.isNaN(period.sum)) return period.last;
    return over.keep === 'mean' ? period.sum / period.values : period[over.keep];
  }

  #isNews(value: unknown, nowMs: number): boolean {
    const { deadband, heartbeatMs } = this.#settings;
    const sent = this.#sent;
    if (deadband === undefined || sent === undefined) return true;
    if (heartbeatMs !== undefined && nowMs - sent.atMs >= heartbeatMs) return true;
    if (typeof value !== 'number' || typeof sent.value !== 'number') {
      return JSON.stringify(value) !== JSON.stringify(sent.value);
    }
    const band = deadband.kind === 'absolute' ? deadband.value : Math.abs(sent.value) * deadband.value;
    return Math.abs(value - sent.value) > band;
  }
}
