import { pointBytes, pointClasses } from '../point.ts';
import { Batch } from './batch.ts';
import type { Lane, QueuedPoint } from './batch.ts';
import type { Amount } from './database/records.ts';
import type { Stream } from './streams.ts';

/** The memory for each datapoint that may wait here. */
const BYTES_PER_POINT = 1_024;

/** The datapoints that are not on disk yet, in the order in which they came, including those on their way. */
export class UnflushedPoints {
  #points: QueuedPoint[] = [];
  readonly #total: Amount = { points: 0, bytes: 0 };

  get all(): readonly QueuedPoint[] {
    return this.#points;
  }

  /** The total without properties. */
  get total(): Readonly<Amount> {
    return this.#total;
  }

  /** True if these datapoints, and `more`, need more memory than this number of datapoints may. */
  exceed(maxPoints: number, more: readonly { readonly text: string }[] = []): boolean {
    const bytes = more.reduce((sum, { text }) => sum + pointBytes(text), this.#total.bytes);
    return this.#total.points + more.length > maxPoints || bytes > maxPoints * BYTES_PER_POINT;
  }

  add(point: QueuedPoint): void {
    this.#points.push(point);
    this.#count([point], 1);
  }

  /** Replaces the earlier value of a property, if it has one. Returns that. */
  addOrReplace(point: QueuedPoint): QueuedPoint | undefined {
    const index = this.#points.findIndex(({ stream }) => stream === point.stream);
    const replaced = this.#points[index];
    if (replaced === undefined) this.#points.push(point);
    else this.#points[index] = { ...point, sinceBootMs: replaced.sinceBootMs };
    return replaced;
  }

  /** Removes datapoints, if they are here. */
  remove(points: readonly QueuedPoint[]): void {
    const isFront = this.#points[0] === points[0] && this.#points[points.length - 1] === points.at(-1);
    const gone = new Set(points);
    const removed = isFront ? this.#points.splice(0, points.length) : this.#points.filter((point) => gone.has(point));
    if (!isFront && removed.length > 0) this.#points = this.#points.filter((point) => !gone.has(point));
    this.#count(removed, -1);
  }

  clear(): void {
    this.#count(this.#points, -1);
    this.#points = [];
  }

  /**
   * Returns the next datapoints of one stream, most urgent and oldest first. `startedAtMs`: the wall clock at the start of
   * this boot. `skip`: streams that have to wait.
   */
  next(lane: Lane, limit: number, startedAtMs: number, skip: ReadonlySet<Stream>): Batch | undefined {
    for (const rowClass of lane === 'property' ? ['property'] : pointClasses) {
      const first = this.#points.find((point) => point.class === rowClass && !skip.has(point.stream));
      if (first === undefined) continue;
      const points = this.#points.values().filter((point) => point.stream === first.stream && point.class === rowClass);
      const timed = points.map((point) =>
        Object.assign(point, { atMs: point.atMs ?? startedAtMs + point.sinceBootMs }),
      );
      return new Batch(lane, first.stream, timed.take(limit).toArray());
    }
    return undefined;
  }

  /** Removes the oldest datapoints of the lowest class that are not on their way, until the others fit. */
  dropBeyond(maxPoints: number, onTheirWay: readonly QueuedPoint[]): readonly QueuedPoint[] {
    const busy = new Set(onTheirWay);
    const dropped: QueuedPoint[] = [];
    for (const rowClass of pointClasses.toReversed()) {
      while (this.exceed(maxPoints)) {
        const oldest = this.#points.find((point) => point.class === rowClass && !busy.has(point));
        if (oldest === undefined) break;
        this.remove([oldest]);
        dropped.push(oldest);
      }
    }
    return dropped;
  }

  #count(points: readonly QueuedPoint[], sign: 1 | -1): void {
    for (const { class: rowClass, text } of points) {
      if (rowClass === 'property') continue;
      this.#total.points += sign;
      this.#total.bytes += sign * pointBytes(text);
    }
  }
}
