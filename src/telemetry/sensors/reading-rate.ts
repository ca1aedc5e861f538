const MAX_KEPT = 64;

/**
 * The rate of readings, computed from the last ones. For a source that has fallen silent it goes down. The first reading
 * does not count, since it is taken at the start, and the next ones in their own rhythm.
 */
export class ReadingRate {
  #timesMs: number[] = [];
  #hasBegun = false;

  note(atMs: number): void {
    if (this.#hasBegun) this.#timesMs.push(atMs);
    this.#hasBegun = true;
    if (this.#timesMs.length > MAX_KEPT) this.#timesMs.shift();
  }

  /** Returns undefined if there were fewer than three readings. */
  perMinute(nowMs: number): number | undefined {
    const [firstMs] = this.#timesMs;
    const lastMs = this.#timesMs.at(-1);
    if (firstMs === undefined || lastMs === undefined || lastMs <= firstMs) return undefined;
    const intervals = this.#timesMs.length - 1;
    const usualMs = (lastMs - firstMs) / intervals;
    const spanMs = Math.max(lastMs, nowMs - usualMs) - firstMs;
    return Math.round((intervals * 6_000_000) / spanMs) / 100;
  }
}
