import type { Clock } from '../../system/time/clock.ts';

/**
 * Says whether the daemon still makes progress: what works must report from time to time, what sleeps says until when.
 * The watchdog of systemd is fed from this, not by a timer alone.
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

  /** Something moved. */
  progress(): void {
    this.#aliveUntilMs = this.#clock.monotonicMs() + this.#longestSilenceMs;
  }

  /** Nothing will move for so long, and that is as it should be. */
  restFor(ms: number): void {
    this.#aliveUntilMs = this.#clock.monotonicMs() + ms + this.#longestSilenceMs;
  }

  get isAlive(): boolean {
    return this.#clock.monotonicMs() < this.#aliveUntilMs;
  }
}
