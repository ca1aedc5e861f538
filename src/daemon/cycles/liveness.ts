import type { Clock } from '../../system/time/clock.ts';

/**
 * True while the daemon makes progress: work must report from time to time, and a sleep states its duration. systemd's
 * watchdog is fed only then, not by a timer alone.
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

  /** Announces that there will be no progress for this time. */
  expectIdle(ms: number): void {
    this.#aliveUntilMs = this.#clock.monotonicMs() + ms + this.#longestSilenceMs;
  }

  get isAlive(): boolean {
    return this.#clock.monotonicMs() < this.#aliveUntilMs;
  }
}
