import type { Clock } from '../../system/time/clock.ts';

/**
 * Tells whether the daemon still makes progress: work must report from time to time, and a sleep says how long it
 * lasts. systemd's watchdog is fed only if this holds, not by a timer alone.
 */
export class Liveness {
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  readonly #longestSilenceMs: number;
  #aliveUntilMs: number;

  constructor(clock: Pick<Clock, 'monotonicMs'>, longestSilenceMs: number) {
    this.#clock = clock;
    this.#longestSilenceMs = longestSilenceMs;
    this.#aliveUntilMs = clock.monotonicMs() + longestSilenceMs;
  }

  /** Notes progress. */
  progress(): void {
    this.#aliveUntilMs = this.#clock.monotonicMs() + this.#longestSilenceMs;
  }

  /** Announces that there will be no progress for so long. */
  expectIdle(ms: number): void {
    this.#aliveUntilMs = this.#clock.monotonicMs() + ms + this.#longestSilenceMs;
  }

  get isAlive(): boolean {
    return this.#clock.monotonicMs() < this.#aliveUntilMs;
  }
}
