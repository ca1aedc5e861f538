/**
 * Limits how often a rejected key is replaced by a new activation. Two devices with one serial number would take the
 * key from each other without end; the limit turns that into a slow and visible failure.
 */
export class ReactivationLimit {
  readonly #count: number;
  readonly #windowMs: number;
  /** The times of the renewals on the monotonic clock, oldest first, at most `count` of them. */
  #renewalsMs: readonly number[] = [];

  constructor(count = 3, windowMs = 3_600_000) {
    this.#count = count;
    this.#windowMs = windowMs;
  }

  /** The time until another renewal is allowed; 0: now. */
  waitMs(nowMs: number): number {
    const oldest = this.#renewalsMs[0];
    if (oldest === undefined || this.#renewalsMs.length < this.#count) return 0;
    return Math.max(0, oldest + this.#windowMs - nowMs);
  }

  note(nowMs: number): void {
    this.#renewalsMs = [...this.#renewalsMs, nowMs].slice(-this.#count);
  }
}
