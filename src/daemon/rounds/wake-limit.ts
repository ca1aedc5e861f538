/** When the looks are due that messages ask for: at once, but never two within the limit. None is lost. */
export class WakeLimit {
  #dueMs = Number.NEGATIVE_INFINITY;

  /**
   * When the look is due that is asked for now; the same one as before, if that is still to come. Never later than the limit,
   * wherever the clock was set meanwhile.
   */
  nextMs(nowMs: number, limitMs: number): number {
    if (nowMs >= this.#dueMs) this.#dueMs = Math.max(nowMs, this.#dueMs + limitMs);
    this.#dueMs = Math.min(this.#dueMs, nowMs + limitMs);
    return this.#dueMs;
  }
}
