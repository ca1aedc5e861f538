import type { Clock } from './clock.ts';

/** Bounds a rate per second on average. A burst after a rest may be as large as `burstSeconds` allow. */
export class TokenBucket {
  readonly #burstSeconds: number;
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  #perSecond: number;
  #room: number;
  #updatedMs: number;

  constructor(perSecond: number, burstSeconds: number, clock: Pick<Clock, 'monotonicMs'>) {
    this.#perSecond = perSecond;
    this.#burstSeconds = burstSeconds;
    this.#clock = clock;
    this.#room = perSecond * burstSeconds;
    this.#updatedMs = clock.monotonicMs();
  }

  /** True if one more is within the bound. Counts it. */
  admits(): boolean {
    this.#refill();
    if (this.#room < 1) return false;
    this.#room -= 1;
    return true;
  }

  /**
   * Counts what has come, whether it was within the bound or not. Returns the milliseconds until the rate is within the
   * bound again.
   */
  spend(count: number): number {
    this.#refill();
    this.#room -= count;
    return this.#room >= 0 ? 0 : Math.ceil((-this.#room / this.#perSecond) * 1_000);
  }

  /** Changes the rate from now on; the count remains. */
  change(perSecond: number): void {
    this.#refill();
    this.#perSecond = perSecond;
  }

  #refill(): void {
    const nowMs = this.#clock.monotonicMs();
    const gained = ((nowMs - this.#updatedMs) / 1_000) * this.#perSecond;
    this.#room = Math.min(this.#perSecond * this.#burstSeconds, this.#room + gained);
    this.#updatedMs = nowMs;
  }
}
