/** The times of looks that messages ask for: at once, but never two within the limit. No request is lost. */
export class WakeRateLimit {
  #dueMs = Number.NEGATIVE_INFINITY;

  /**
   * The time of the look that is asked for now; an earlier request's, if that look is still ahead. It is never later
   * than the limit, even if the clock was set meanwhile.
   */
  nextMs(nowMs: number, limitMs: number): number {
    if (nowMs >= this.#dueMs) this.#dueMs = Math.max(nowMs, this.#dueMs + limitMs);
    this.#dueMs = Math.min(this.#dueMs, nowMs + limitMs);
    return this.#dueMs;
  }
}
