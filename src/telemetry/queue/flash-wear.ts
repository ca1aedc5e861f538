import { readFileSync } from 'node:fs';

import type { Clock } from '../../system/time/clock.ts';

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

export interface FlashWearDeps {
  readonly clock: Pick<Clock, 'monotonicMs'>;
  /** The limit of a day. */
  readonly flashBytesPerDay: number;
  readonly readWritten?: (() => number | undefined) | undefined;
}

/** Counts the bytes that the queue writes to the medium, by hour, for the last day. */
export class FlashWear {
  readonly #deps: FlashWearDeps;
  readonly #bytes = new Map<number, number>();
  #sinceMs: number | undefined;
  /** The end of the time that the last writes take at the rate of the limit. */
  #pauseEndMs = 0;

  constructor(deps: FlashWearDeps) {
    this.#deps = deps;
  }

  /** Runs something synchronous and counts what it writes. */
  measure<T>(work: () => T): T {
    const { flashBytesPerDay, readWritten = readWrittenBytes } = this.#deps;
    const before = readWritten();
    try {
      return work();
    } finally {
      const after = readWritten();
      const atMs = this.#nowMs;
      const hour = Math.floor(atMs / HOUR_MS);
      this.#sinceMs ??= atMs;
      if (before !== undefined && after !== undefined) {
        const bytes = after - before;
        this.#pauseEndMs = Math.max(this.#pauseEndMs, atMs + (bytes * HOURS * HOUR_MS) / flashBytesPerDay);
        this.#bytes.set(hour, (this.#bytes.get(hour) ?? 0) + bytes);
      }
    }
  }

  /**
   * Returns undefined below the limit of a day. Above it, returns the time until the next write, so that writes that keep
   * to it write as many bytes in a day again.
   */
  get pauseMs(): number | undefined {
    if (this.#bytesOfLastDay() < this.#deps.flashBytesPerDay) return undefined;
    return Math.max(0, this.#pauseEndMs - this.#nowMs);
  }

  /** Describes the pause, if there is one now. */
  get pauseText(): string | undefined {
    const { pauseMs = 0 } = this;
    if (pauseMs === 0) return undefined;
    return `flash_bytes_per_day is used up: the next write is in ${Math.ceil(pauseMs / 1_000)} s`;
  }

  /**
   * The bytes per day at the pace of the last day; if there is less to measure, of that time, but of at least an hour.
   */
  get bytesPerDay(): number {
    const elapsedMs = Math.min(Math.max(this.#nowMs - (this.#sinceMs ?? this.#nowMs), HOUR_MS), HOURS * HOUR_MS);
    return Math.round((this.#bytesOfLastDay() * HOURS * HOUR_MS) / elapsedMs);
  }

  get #nowMs(): number {
    return this.#deps.clock.monotonicMs();
  }

  #bytesOfLastDay(): number {
    const first = Math.floor(this.#nowMs / HOUR_MS) - HOURS + 1;
    for (const hour of this.#bytes.keys()) if (hour < first) this.#bytes.delete(hour);
    return this.#bytes.values().reduce((sum, bytes) => sum + bytes, 0);
  }
}
