import type { Receipt } from '../delivery/receipt.ts';
import { pointClasses } from '../point.ts';
import type { Stream } from './streams.ts';

/** A point that is in memory. */
export interface LivePoint {
  seq: number;
  readonly stream: Stream;
  readonly atMs: number | undefined;
  readonly sinceBootMs: number;
  /** JSON. */
  readonly text: string;
  readonly bytes: number;
  readonly receipt: Receipt | undefined;
  /** It is on disk too. */
  stored: boolean;
}

/** Points that are neither on disk nor on their way; per stream, in their order. */
export class PendingPoints {
  readonly #queues = new Map<Stream, LivePoint[]>();
  #points = 0;
  #bytes = 0;

  get points(): number {
    return this.#points;
  }

  get bytes(): number {
    return this.#bytes;
  }

  add(point: LivePoint): void {
    const queue = this.#queues.get(point.stream);
    if (queue === undefined) this.#queues.set(point.stream, [point]);
    else queue.push(point);
    this.#count(1, point.bytes);
  }

  /** The stream whose turn it is: of the most urgent class, the one whose oldest point waits longest. */
  next(mayGo: (oldest: LivePoint) => boolean): Stream | undefined {
    for (const pointClass of pointClasses) {
      let found: LivePoint | undefined;
      for (const [oldest] of this.#queues.values()) {
        if (oldest === undefined || oldest.stream.class !== pointClass || !mayGo(oldest)) continue;
        if (found === undefined || oldest.seq < found.seq) found = oldest;
      }
      if (found !== undefined) return found.stream;
    }
    return undefined;
  }

  /** The oldest of a stream, in their order, up to the first that may not go: one whose time is not known yet keeps back those behind it. */
  take(stream: Stream, limit: number, mayGo: (point: LivePoint) => boolean = () => true): LivePoint[] {
    const queue = this.#queues.get(stream) ?? [];
    const kept = queue.slice(0, limit).findIndex((point) => !mayGo(point));
    const taken = queue.splice(0, kept === -1 ? limit : kept);
    if (queue.length === 0) this.#queues.delete(stream);
    for (const { bytes } of taken) this.#count(-1, -bytes);
    return taken;
  }

  /** Back to the front. */
  giveBack(stream: Stream, points: readonly LivePoint[]): void {
    if (points.length === 0) return;
    this.#queues.set(stream, [...points, ...(this.#queues.get(stream) ?? [])]);
    for (const { bytes } of points) this.#count(1, bytes);
  }

  oldestSinceBootMs(): number | undefined {
    let oldestMs: number | undefined;
    for (const [oldest] of this.#queues.values()) {
      if (oldest !== undefined) oldestMs = Math.min(oldestMs ?? oldest.sinceBootMs, oldest.sinceBootMs);
    }
    return oldestMs;
  }

  /** The oldest of the lowest class. */
  dropOldest(): LivePoint | undefined {
    for (const pointClass of pointClasses.toReversed()) {
      const stream = this.next(({ stream }) => stream.class === pointClass);
      if (stream !== undefined) return this.take(stream, 1)[0];
    }
    return undefined;
  }

  /** All, oldest first. */
  all(): LivePoint[] {
    return [...this.#queues.values()].flat().sort((a, b) => a.seq - b.seq);
  }

  clear(): void {
    this.#queues.clear();
    this.#points = 0;
    this.#bytes = 0;
  }

  #count(points: number, bytes: number): void {
    this.#points += points;
    this.#bytes += bytes;
  }
}
