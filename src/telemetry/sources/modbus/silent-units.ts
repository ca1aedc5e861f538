import type { Clock } from '../../../system/time/clock.ts';

interface Unit {
  /** The number of requests in a row without an answer. */
  failures: number;
  /** Until then, requests fail with the last error. */
  untilMs: number;
  error: unknown;
}

/** A single answer may be lost. */
const TOLERATED = 1;
/** A request that fails sooner holds up no other unit. */
const LONG_MS = 500;
const FIRST_PAUSE_MS = 5_000;
const LONGEST_PAUSE_MS = 60_000;

/**
 * Keeps a silent unit from holding the connection for the others: after two requests without an
 * answer it gets one request per pause, which grows to a minute. A unit alone is always asked.
 */
export class SilentUnits {
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  readonly #units = new Map<number, Unit>();

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock;
  }

  /** Makes a request to a unit, or throws its last error during a pause. */
  async ask<T>(number: number, request: () => Promise<T>): Promise<T> {
    const unit = this.#units.get(number) ?? { failures: 0, untilMs: 0, error: undefined };
    this.#units.set(number, unit);
    if (this.#units.size > 1 && this.#clock.monotonicMs() < unit.untilMs) throw unit.error;
    const startMs = this.#clock.monotonicMs();
    try {
      const answer = await request();
      unit.failures = 0;
      return answer;
    } catch (error) {
      if (this.#clock.monotonicMs() - startMs < LONG_MS) throw error;
      unit.failures += 1;
      unit.error = error;
      const pauseMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (unit.failures - TOLERATED - 1));
      if (unit.failures > TOLERATED) unit.untilMs = this.#clock.monotonicMs() + pauseMs;
      throw error;
    }
  }
}
