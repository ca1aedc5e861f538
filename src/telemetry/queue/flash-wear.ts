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

/** Counts the bytes that the queue writes to the medium, hour by hour, for the last day. */
export class FlashWear {
  readonly #hours = Array.from({ length: HOURS }, () => 0);
  readonly #readWritten: () => number | undefined;
  #hour = 0;
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
      this.#advanceTo(nowMs);
      if (before !== undefined && after !== undefined) this.#hours[this.#hour % HOURS] = this.#now + after - before;
    }
  }

  /** The bytes of the last 24 hours. */
  bytesOfLastDay(nowMs: number): number {
    this.#advanceTo(nowMs);
    return this.#hours.reduce((sum, bytes) => sum + bytes, 0);
  }

  /**
   * The bytes per day at the pace of the last day; if there is less to measure, of that time, but of at least an hour.
   */
  bytesPerDay(nowMs: number): number {
    const bytes = this.bytesOfLastDay(nowMs);
    const elapsedMs = Math.min(Math.max(nowMs - (this.#sinceMs ?? nowMs), HOUR_MS), HOURS * HOUR_MS);
    return Math.round((bytes * HOURS * HOUR_MS) / elapsedMs);
  }

  get #now(): number {
    return this.#hours[this.#hour % HOURS] ?? 0;
  }

  #advanceTo(nowMs: number): void {
    this.#sinceMs ??= nowMs;
    const hour = Math.floor((nowMs - this.#sinceMs) / HOUR_MS);
    const passed = Math.min(hour - this.#hour, HOURS);
    for (let step = 1; step <= passed; step += 1) this.#hours[(hour - passed + step) % HOURS] = 0;
    this.#hour = Math.max(hour, this.#hour);
  }
}
