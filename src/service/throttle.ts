import type { MaxRate } from '../config/config.ts';
import type { Clock } from '../system/time/clock.ts';
import { isWithin, minuteOfDay, nextMinuteMs } from '../system/time/daily-window.ts';
import { RateBound } from '../system/time/rate-bound.ts';

/** What bounds a download now. */
export interface RateInForce {
  readonly bytesPerSecond: number;
  /** Wall clock, milliseconds since the epoch, when that changes; undefined: never. */
  readonly untilMs: number | undefined;
}

/** At once no more than what comes in this time. */
const BURST_SECONDS = 1;
/** Shorter than any deadline; another time of day, or a clock that was set, changes the bound after it. */
const LONGEST_NAP_MS = 500;
/** So long after a nap a download still counts as one that is slowed down. */
const MEMORY_MS = 10_000;
const MINUTES_OF_DAY = 24 * 60;

/** Holds downloads to `[service] max_rate`, all of them together. Only the choice of the rate looks at the wall clock. */
export class Throttle {
  readonly #rates: readonly MaxRate[];
  readonly #clock: Clock;
  #bound: RateBound | undefined;
  #nappedMs = Number.NEGATIVE_INFINITY;

  constructor(rates: readonly MaxRate[], clock: Clock) {
    this.#rates = rates;
    this.#clock = clock;
  }

  /** Undefined: no download waits for it now. */
  get inForce(): RateInForce | undefined {
    if (this.#clock.monotonicMs() - this.#nappedMs > MEMORY_MS) return undefined;
    const minute = minuteOfDay(this.#clock);
    const bytesPerSecond = rateAt(this.#rates, minute);
    return bytesPerSecond === undefined ? undefined : { bytesPerSecond, untilMs: this.#changeMs(minute) };
  }

  /** So many bytes came: resolves when they are within the bound. `onNap` is told of each wait before it begins. */
  async pass(bytes: number, signal: AbortSignal, onNap: (ms: number) => void = () => {}): Promise<void> {
    let owedMs = this.#spend(bytes);
    while (owedMs > 0) {
      const napMs = Math.min(owedMs, LONGEST_NAP_MS);
      this.#nappedMs = this.#clock.monotonicMs();
      onNap(napMs);
      await this.#clock.sleep(napMs, signal);
      owedMs = this.#spend(0);
    }
  }

  /** How long until nothing more is owed, at the rate of this moment. */
  #spend(bytes: number): number {
    const bytesPerSecond = rateAt(this.#rates, minuteOfDay(this.#clock));
    if (bytesPerSecond === undefined) {
      this.#bound = undefined;
      return 0;
    }
    this.#bound ??= new RateBound(bytesPerSecond, BURST_SECONDS, this.#clock);
    this.#bound.change(bytesPerSecond);
    return this.#bound.spend(bytes);
  }

  #changeMs(minute: number | undefined): number | undefined {
    if (minute === undefined) return undefined;
    const rate = rateAt(this.#rates, minute);
    const later = Array.from({ length: MINUTES_OF_DAY - 1 }, (_, index) => (minute + 1 + index) % MINUTES_OF_DAY);
    const change = later.find((other) => rateAt(this.#rates, other) !== rate);
    return change === undefined ? undefined : nextMinuteMs(change, this.#clock.nowMs());
  }
}

/** Undefined: nothing bounds it. Where nobody knows the time of day, the least rate holds. Pure. */
export function rateAt(rates: readonly MaxRate[], minute: number | undefined): number | undefined {
  if (minute !== undefined) {
    return rates.find(({ window }) => window === undefined || isWithin(window, minute))?.bytesPerSecond;
  }
  return rates.length === 0 ? undefined : Math.min(...rates.map(({ bytesPerSecond }) => bytesPerSecond));
}
