import type { Clock } from '../system/time/clock.ts';

export interface ByteCounts {
  readonly sentBytes: number;
  readonly receivedBytes: number;
}

export interface TrafficReport {
  /** The duration of the measurement; the hour and the day begin no earlier. */
  readonly measuredMs: number;
  readonly lastHour: ByteCounts;
  readonly lastDay: ByteCounts;
  readonly sinceStart: ByteCounts;
}

/** The counters of a socket of `node:net`. */
export interface CountedSocket {
  readonly bytesRead: number;
  readonly bytesWritten: number;
  once(event: 'close', listener: () => void): unknown;
}

const HOUR_MS = 60 * 60_000;
const PART_MS = 5 * 60_000;
const PARTS_OF_HOUR = HOUR_MS / PART_MS;
const PARTS_OF_DAY = 24 * PARTS_OF_HOUR;
const none: ByteCounts = { sentBytes: 0, receivedBytes: 0 };

/**
 * Counts what the connections to the service and its broker carry: requests, replies, firmware and measurements with
 * their headers and TLS, but without TCP and IP. The counts are kept in memory for a day, in parts of five minutes of
 * the monotonic clock, so that setting the wall clock changes nothing.
 */
export class Traffic {
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  /** The finished counts, by the number of the part. */
  readonly #parts = new Map<number, ByteCounts>();
  /** The bytes already counted of each open socket. */
  readonly #open = new Map<CountedSocket, ByteCounts>();
  #sinceStart: ByteCounts = none;
  readonly #beganMs: number;
  /** Up to when was counted. */
  #measuredMs: number;

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock;
    this.#beganMs = clock.monotonicMs();
    this.#measuredMs = this.#beganMs;
  }

  /** Counts everything that this socket carries until it is closed. It must be the TCP socket, not TLS above it. */
  watch(socket: CountedSocket): void {
    this.#count();
    this.#open.set(socket, none);
    socket.once('close', () => {
      this.#count();
      this.#open.delete(socket);
    });
  }

  get report(): TrafficReport {
    this.#count();
    return {
      measuredMs: Math.round(this.#measuredMs - this.#beganMs),
      lastHour: this.#lastParts(PARTS_OF_HOUR),
      lastDay: this.#lastParts(PARTS_OF_DAY),
      sinceStart: this.#sinceStart,
    };
  }

  /** Counts the bytes received since the last time, spread evenly over the time between. No timer wakes up to count. */
  #count(): void {
    const nowMs = this.#clock.monotonicMs();
    const [first, last] = [partAt(this.#measuredMs), partAt(nowMs)];
    this.#measuredMs = nowMs;
    const fresh = [...this.#open].map(([socket, before]) => {
      const total = { sentBytes: socket.bytesWritten, receivedBytes: socket.bytesRead };
      this.#open.set(socket, total);
      return less(total, before);
    });
    const all = fresh.reduce(sum, none);
    this.#sinceStart = sum(this.#sinceStart, all);
    const begin = Math.max(first, last - PARTS_OF_DAY);
    const share = 1 / (last - first + 1);
    for (let part = begin; part <= last; part += 1)
      this.#parts.set(part, sum(this.#parts.get(part) ?? none, scaled(all, share)));
    for (const part of this.#parts.keys()) if (part <= last - PARTS_OF_DAY) this.#parts.delete(part);
  }

  #lastParts(count: number): ByteCounts {
    const last = partAt(this.#measuredMs);
    const parts = [...this.#parts].filter(([part]) => part > last - count).map(([, carried]) => carried);
    const { sentBytes, receivedBytes } = parts.reduce(sum, none);
    return { sentBytes: Math.round(sentBytes), receivedBytes: Math.round(receivedBytes) };
  }
}

function partAt(ms: number): number {
  return Math.floor(ms / PART_MS);
}

function sum(one: ByteCounts, other: ByteCounts): ByteCounts {
  return { sentBytes: one.sentBytes + other.sentBytes, receivedBytes: one.receivedBytes + other.receivedBytes };
}

function less(all: ByteCounts, before: ByteCounts): ByteCounts {
  return sum(all, scaled(before, -1));
}

function scaled({ sentBytes, receivedBytes }: ByteCounts, by: number): ByteCounts {
  return { sentBytes: sentBytes * by, receivedBytes: receivedBytes * by };
}
