import type { Clock } from '../system/time/clock.ts';

/** So many a second on average, and at once no more than what comes together in some seconds of rest. */
export class RateBound {
  readonly #perSecond: number;
  readonly #most: number;
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  #room: number;
  #lookedMs: number;

  constructor(perSecond: number, burstSeconds: number, clock: Pick<Clock, 'monotonicMs'>) {
    this.#perSecond = perSecond;
    this.#most = perSecond * burstSeconds;
    this.#clock = clock;
    this.#room = this.#most;
    this.#lookedMs = clock.monotonicMs();
  }

  /** Whether one more is within the bound; if so, it is counted. */
  admits(): boolean {
    this.#refill();
    if (this.#room < 1) return false;
    this.#room -= 1;
    return true;
  }

  /** So many came, wanted or not. Returns how long nothing more should come. */
  spend(count: number): number {
    this.#refill();
    this.#room -= count;
    return this.#room >= 0 ? 0 : Math.ceil((-this.#room / this.#perSecond) * 1_000);
  }

  #refill(): void {
    const nowMs = this.#clock.monotonicMs();
    this.#room = Math.min(this.#most, this.#room + ((nowMs - this.#lookedMs) / 1_000) * this.#perSecond);
    this.#lookedMs = nowMs;
  }
}
