const MAX_KEPT = 64;

/** How often readings come, by the last of them; a source that has fallen silent grows slower while one looks. */
export class ReadingPace {
  #timesMs: number[] = [];

  note(atMs: number): void {
    this.#timesMs.push(atMs);
    if (this.#timesMs.length > MAX_KEPT) this.#timesMs.shift();
  }

  /** Undefined: it takes two readings to know. */
  perMinute(nowMs: number): number | undefined {
    const [firstMs] = this.#timesMs;
    if (firstMs === undefined || this.#timesMs.length < 2 || nowMs <= firstMs) return undefined;
    return ((this.#timesMs.length - 1) * 60_000) / (nowMs - firstMs);
  }
}
