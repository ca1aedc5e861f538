import { Batch } from './batch.ts';
import type { Lane, QueuedPoint, TimedPoint } from './batch.ts';
import { amountOf, count, emptyTotals, rowClasses, totalOf } from './database/records.ts';
import type { Amount } from './database/records.ts';
import type { Stream } from './streams.ts';

/** The datapoints that are not on disk yet, in the order in which they came, including those on their way. */
export class UnflushedPoints {
  readonly #timeOf: (point: QueuedPoint) => number | undefined;
  #points: QueuedPoint[] = [];
  #totals = emptyTotals();

  /** `timeOf` returns the time of a datapoint, or undefined if it is still unknown. */
  constructor(timeOf: (point: QueuedPoint) => number | undefined) {
    this.#timeOf = timeOf;
  }

  get all(): readonly QueuedPoint[] {
    return this.#points;
  }

  /** The total without properties. */
  get total(): Amount {
    return totalOf(this.#totals);
  }

  add(point: QueuedPoint): void {
    this.#points.push(point);
    count(this.#totals, point.class, 1, amountOf(point.text));
  }

  /** Replaces the earlier value of a property, if it has one. Returns that. */
  addOrReplace(point: QueuedPoint): QueuedPoint | undefined {
    const index = this.#points.findIndex(({ stream }) => stream === point.stream);
    const replaced = this.#points[index];
    if (replaced === undefined) {
      this.add(point);
      return undefined;
    }
    this.#points[index] = { ...point, sinceBootMs: replaced.sinceBootMs };
    count(this.#totals, point.class, -1, amountOf(replaced.text));
    count(this.#totals, point.class, 1, amountOf(point.text));
    return replaced;
  }

  /** Removes datapoints, if they are here. */
  remove(points: readonly QueuedPoint[]): void {
    const isFront = this.#points[0] === points[0] && this.#points[points.length - 1] === points.at(-1);
    const gone = new Set(points);
    const removed = isFront ? this.#points.splice(0, points.length) : this.#points.filter((point) => gone.has(point));
    if (!isFront && removed.length > 0) this.#points = this.#points.filter((point) => !gone.has(point));
    for (const { class: rowClass, text } of removed) count(this.#totals, rowClass, -1, amountOf(text));
  }

  clear(): void {
    this.#points = [];
    this.#totals = emptyTotals();
  }

  /**
   * Returns the next datapoints of one stream, most urgent and oldest first, up to the first one whose time is unknown.
   * `skip`: streams that have to wait.
   */
  next(lane: Lane, limit: number, skip: ReadonlySet<Stream>): Batch | undefined {
    const first = this.#first(lane, skip);
    if (first === undefined) return undefined;
    const points: TimedPoint[] = [];
    for (const point of this.#points) {
      if (point.stream !== first.stream || point.class !== first.class) continue;
      const atMs = this.#timeOf(point);
      if (atMs === undefined || points.length === limit) break;
      points.push(Object.assign(point, { atMs }));
    }
    return new Batch(lane, first.stream, points);
  }

  /** Removes the oldest datapoint of the lowest class that is not on its way. */
  dropOldest(onTheirWay: readonly QueuedPoint[]): QueuedPoint | undefined {
    const busy = new Set(onTheirWay);
    for (const rowClass of ['bulk', 'normal', 'urgent'] as const) {
      const dropped = this.#points.find((point) => point.class === rowClass && !busy.has(point));
      if (dropped === undefined) continue;
      this.remove([dropped]);
      return dropped;
    }
    return undefined;
  }

  #first(lane: Lane, skip: ReadonlySet<Stream>): QueuedPoint | undefined {
    const classes = rowClasses.filter((rowClass) => (rowClass === 'property') === (lane === 'property'));
    const present = classes.filter((rowClass) => this.#totals[rowClass].points > 0);
    const waits = new Set(skip);
    let first: QueuedPoint | undefined;
    let rank = present.length;
    for (const point of this.#points) {
      if (rank === 0) break;
      const its = present.indexOf(point.class);
      if (its === -1 || waits.has(point.stream)) continue;
      if (this.#timeOf(point) === undefined) waits.add(point.stream);
      else if (its < rank) {
        first = point;
        rank = its;
      }
    }
    return first;
  }
}
