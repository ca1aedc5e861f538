import type { Boots } from '../clock/boots.ts';
import type { Acknowledgement } from '../delivery/acknowledgement.ts';
import { TelemetryError } from '../errors.ts';
import { pointBytes, pointClasses } from '../point.ts';
import { Batch } from './batch.ts';
import type { SpooledPoint } from './batch.ts';
import type { Stream } from './streams.ts';

/** A point that came since the agent started. */
export interface LivePoint {
  /** Rises with each point that comes. */
  readonly n: number;
  readonly stream: Stream;
  /** Undefined: the clock was not set. */
  atMs: number | undefined;
  readonly sinceBootMs: number;
  /** JSON. */
  readonly text: string;
  readonly receipt: Acknowledgement | undefined;
  /** The seq of its row; undefined: it is only in memory. */
  seq: number | undefined;
}

type TimedPoint = LivePoint & SpooledPoint;

/**
 * The part of the spool in memory: points that wait to be written, and those that are on their way to the service
 * meanwhile.
 */
export class MemoryQueue {
  readonly #boots: Boots;
  /** The points that are not on their way, in their order. No queue is empty. */
  readonly #queues = new Map<Stream, LivePoint[]>();
  readonly #out = new Map<Stream, Batch<TimedPoint>>();
  /** The number of points that are only in memory, including those on their way. */
  #points = 0;
  #bytes = 0;
  #n = 0;

  constructor(boots: Boots) {
    this.#boots = boots;
  }

  /** The number of points that are only in memory. */
  get unwritten(): number {
    return this.#points;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Whether points wait, which could be taken if their time were known and their event not held up. */
  get isWaiting(): boolean {
    return this.#queues.size > 0;
  }

  /**
   * The first row of a stream that is on its way out of memory. It must not be read from the disk, and neither must
   * those behind it.
   */
  ceilingOf(stream: Stream): number {
    return this.#out.get(stream)?.next?.seq ?? Number.POSITIVE_INFINITY;
  }

  add(point: Omit<LivePoint, 'n' | 'seq'>): void {
    this.#n += 1;
    const live = { ...point, n: this.#n, seq: undefined };
    const queue = this.#queues.get(point.stream);
    if (queue === undefined) this.#queues.set(point.stream, [live]);
    else queue.push(live);
    this.#count(1, point);
  }

  oldestSinceBootMs(): number | undefined {
    let oldestMs: number | undefined;
    for (const { seq, sinceBootMs } of this.#fronts()) {
      if (seq === undefined) oldestMs = Math.min(oldestMs ?? sinceBootMs, sinceBootMs);
    }
    return oldestMs;
  }

  /**
   * Takes the next points of one event, up to the first one whose time is not known yet. `skip`: events that have to
   * wait.
   */
  take(limit: number, skip: ReadonlySet<string>): Batch | undefined {
    const stream = this.#next(pointClasses, (oldest) => {
      return !skip.has(oldest.stream.event) && !this.#out.has(oldest.stream) && this.#timeOf(oldest) !== undefined;
    });
    if (stream === undefined) return undefined;
    const points: TimedPoint[] = [];
    for (const point of this.#queues.get(stream)?.slice(0, limit) ?? []) {
      const atMs = this.#timeOf(point);
      if (atMs === undefined) break;
      points.push(Object.assign(point, { atMs }));
    }
    this.#takeFront(stream, points.length);
    const batch = new Batch('live', stream, points);
    this.#out.set(stream, batch);
    return batch;
  }

  /** Forgets those points that are only in memory. */
  settle(points: readonly SpooledPoint[]): void {
    for (const point of points) if (point.seq === undefined) this.#count(-1, point);
  }

  /** Lets the unsettled points of a batch wait again, unless they are on disk. */
  release(batch: Batch): void {
    const out = this.#out.get(batch.stream);
    if (out !== batch) return;
    this.#out.delete(batch.stream);
    const back: LivePoint[] = out.left.filter(({ seq }) => seq === undefined);
    if (back.length > 0) this.#queues.set(batch.stream, [...back, ...(this.#queues.get(batch.stream) ?? [])]);
  }

  /** All points that are only in memory, in the order in which they came. */
  toWrite(): LivePoint[] {
    const out = this.#out.values().flatMap(({ left }) => left.filter(({ seq }) => seq === undefined));
    return [...out, ...this.#queues.values().flatMap((queue) => queue)].sort((a, b) => a.n - b.n);
  }

  /** The points that `toWrite` returned have their rows now. */
  written(): void {
    this.#queues.clear();
    this.#points = 0;
    this.#bytes = 0;
  }

  /** Drops the oldest point of the lowest class that is not on its way. */
  dropOldest(): LivePoint | undefined {
    const stream = this.#next(pointClasses.toReversed(), () => true);
    const [dropped] = stream === undefined ? [] : this.#takeFront(stream, 1);
    if (dropped === undefined) return undefined;
    this.#count(-1, dropped);
    dropped.receipt?.lost(new TelemetryError('point-dropped', 'a point was dropped: neither disk nor memory has room'));
    return dropped;
  }

  /** The stream whose turn it is: in the first class that has any, the one whose oldest point has waited longest. */
  #next(classes: typeof pointClasses | Stream['class'][], mayGo: (oldest: LivePoint) => boolean): Stream | undefined {
    for (const pointClass of classes) {
      let found: LivePoint | undefined;
      for (const [oldest] of this.#queues.values()) {
        if (oldest === undefined || oldest.stream.class !== pointClass || !mayGo(oldest)) continue;
        if (found === undefined || oldest.n < found.n) found = oldest;
      }
      if (found !== undefined) return found.stream;
    }
    return undefined;
  }

  #takeFront(stream: Stream, count: number): LivePoint[] {
    const queue = this.#queues.get(stream) ?? [];
    const taken = queue.splice(0, count);
    if (queue.length === 0) this.#queues.delete(stream);
    return taken;
  }

  /** The first point of each stream. */
  *#fronts(): Generator<LivePoint> {
    for (const { next } of this.#out.values()) if (next !== undefined) yield next;
    for (const [oldest] of this.#queues.values()) if (oldest !== undefined) yield oldest;
  }

  #count(points: 1 | -1, { text }: Pick<LivePoint, 'text'>): void {
    this.#points += points;
    this.#bytes += points * pointBytes(text);
  }

  #timeOf({ atMs, sinceBootMs }: LivePoint): number | undefined {
    return atMs ?? this.#boots.wallMs(this.#boots.current.id, sinceBootMs);
  }
}
