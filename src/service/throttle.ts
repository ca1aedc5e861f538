import type { Clock } from '../system/time/clock.ts';
import { isWithin, minuteOfDay, nextMinuteMs } from '../system/time/daily-window.ts';
import { TokenBucket } from '../system/time/token-bucket.ts';
import type { MaxRate } from './settings.ts';

/** The bound on downloads at present. */
export interface CurrentRate {
  readonly bytesPerSecond: number;
  /** The time when the bound changes (wall clock, milliseconds since the epoch). Omitted if it never does. */
  readonly untilMs: number | undefined;
}

/** A burst is at most what the rate allows in this time. */
const BURST_SECONDS = 1;
/**
 * Shorter than any deadline. After each wait the rate is chosen again, since the time of day or the clock may have
 * changed.
 */
const LONGEST_NAP_MS = 500;
/** A download counts as slowed down for this time after its last wait. */
const MEMORY_MS = 10_000;
const MINUTES_OF_DAY = 24 * 60;

/**
 * Guarantee `max-rate`: bounds all downloads together to `[service] max_rate`. Only the choice of the rate uses the wall
 * clock.
 */
export class Throttle {
  readonly #rates: readonly MaxRate[];
  readonly #clock: Clock;
  #bound: TokenBucket | undefined;
  #nappedMs = Number.NEGATIVE_INFINITY;

  constructor(rates: readonly MaxRate[], clock: Clock) {
    this.#rates = rates;
    this.#clock = clock;
  }

  /** The bound that slows down a download now, if any. */
  get inForce(): CurrentRate | undefined {
    if (this.#clock.monotonicMs() - this.#nappedMs > MEMORY_MS) return undefined;
    const minute = minuteOfDay(this.#clock);
    const bytesPerSecond = rateAt(this.#rates, minute);
    return bytesPerSecond === undefined ? undefined : { bytesPerSecond, untilMs: this.#changeMs(minute) };
  }

  /** Counts received bytes, and resolves when they are within the bound. Calls `onNap` before each wait. */
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

  /** Counts bytes. Returns the time until the rate is within the bound again, at the present rate. */
  #spend(bytes: number): number {
    const bytesPerSecond = rateAt(this.#rates, minuteOfDay(this.#clock));
    if (bytesPerSecond === undefined) {
      this.#bound = undefined;
      return 0;
    }
    this.#bound ??= new TokenBucket(bytesPerSecond, BURST_SECONDS, this.#clock);
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

/**
 * Returns the rate at this minute of the day, or undefined without bound. If the time of day is unknown, the lowest
 * rate applies. Pure.
 */
export function rateAt(rates: readonly MaxRate[], minute: number | undefined): number | undefined {
  if (minute !== undefined) {
    return rates.find(({ window }) => window === undefined || isWithin(window, minute))?.bytesPerSecond;
  }
  return rates.length === 0 ? undefined : Math.min(...rates.map(({ bytesPerSecond }) => bytesPerSecond));
}
