/** The times of checks that messages request: immediately, but never two within the limit. No request is lost. */
export class WakeRateLimit {
  #dueMs = Number.NEGATIVE_INFINITY;

  /**
   * Returns the time of the check requested now, or of an earlier request's check that is still ahead. It is never
   * later than the limit, even if the clock was set.
   */
  nextMs(nowMs: number, limitMs: number): number {
    if (nowMs >= this.#dueMs) this.#dueMs = Math.max(nowMs, this.#dueMs + limitMs);
    this.#dueMs = Math.min(this.#dueMs, nowMs + limitMs);
    return this.#dueMs;
  }
}
