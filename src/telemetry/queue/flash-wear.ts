import { readFileSync } from 'node:fs';

const HOUR_MS = 3_600_000;
const HOURS = 24;

/**
 * Returns the bytes that this process has given the kernel to write to a medium (proc_pid_io(5), write_bytes), or
 * undefined if the kernel does not count them.
 */
function readWrittenBytes(): number | undefined {
  try {
    const match = /^write_bytes: (\d+)$/m.exec(readFileSync('/proc/self/io', 'latin1'));
    return match === null ? undefined : Number(match[1]);
  } catch (error) {
    if (error instanceof Error) return undefined;
    throw error;
  }
}

/** Counts the bytes that the queue writes to the medium, by hour, for the last day. */
export class FlashWear {
  readonly #bytes = new Map<number, number>();
  readonly #readWritten: () => number | undefined;
  #sinceMs: number | undefined;

  constructor(readWritten: () => number | undefined = readWrittenBytes) {
    this.#readWritten = readWritten;
  }

  /** Runs something synchronous and counts what it writes. */
  measure<T>(nowMs: number, work: () => T): T {
    const before = this.#readWritten();
    try {
      return work();
    } finally {
      const after = this.#readWritten();
      const hour = Math.floor(nowMs / HOUR_MS);
      this.#sinceMs ??= nowMs;
      if (before !== undefined && after !== undefined)
        this.#bytes.set(hour, (this.#bytes.get(hour) ?? 0) + after - before);
    }
  }

  /** The bytes of the last 24 hours. */
  bytesOfLastDay(nowMs: number): number {
    for (const hour of this.#bytes.keys()) if (hour <= Math.floor(nowMs / HOUR_MS) - HOURS) this.#bytes.delete(hour);
    return this.#bytes.values().reduce((sum, bytes) => sum + bytes, 0);
  }

  /**
   * The bytes per day at the pace of the last day; if there is less to measure, of that time, but of at least an hour.
   */
  bytesPerDay(nowMs: number): number {
    const elapsedMs = Math.min(Math.max(nowMs - (this.#sinceMs ?? nowMs), HOUR_MS), HOURS * HOUR_MS);
    return Math.round((this.bytesOfLastDay(nowMs) * HOURS * HOUR_MS) / elapsedMs);
  }
}
