import type { Stream } from '../queue/streams.ts';

const SUSPENDED_MS = 5 * 60_000;

/** Defers events and properties that the service does not accept now. Each is tried again after a while. */
export class Suspensions {
  readonly #untilMs = new Map<Stream, number>();

  suspend(stream: Stream, nowMs: number): void {
    this.#untilMs.set(stream, nowMs + SUSPENDED_MS);
  }

  suspended(nowMs: number): ReadonlySet<Stream> {
    for (const [stream, untilMs] of this.#untilMs) if (untilMs <= nowMs) this.#untilMs.delete(stream);
    return new Set(this.#untilMs.keys());
  }

  /** Allows all to be tried again. */
  clear(): void {
    this.#untilMs.clear();
  }

  /** Returns the time until the first one may be tried again, or infinity. */
  msUntilFirst(nowMs: number): number {
    return Math.max(0, Math.min(...this.#untilMs.values()) - nowMs);
  }
}
