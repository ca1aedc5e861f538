const PARKED_MS = 5 * 60_000;

/** Keeps back names that the service does not accept now. Each is tried again after a while. */
export class Suspensions {
  readonly #untilMs = new Map<string, number>();

  suspend(name: string, nowMs: number): void {
    this.#untilMs.set(name, nowMs + PARKED_MS);
  }

  suspended(nowMs: number): ReadonlySet<string> {
    for (const [name, untilMs] of this.#untilMs) if (untilMs <= nowMs) this.#untilMs.delete(name);
    return new Set(this.#untilMs.keys());
  }

  /** Allows all names to be tried again. */
  clear(): void {
    this.#untilMs.clear();
  }

  /** The time until the first name may be tried again. */
  msUntilFirst(nowMs: number): number {
    return Math.max(0, Math.min(...this.#untilMs.values()) - nowMs);
  }
}
