import type { Acknowledgement } from '../delivery/acknowledgement.ts';
import type { PointClass } from '../point.ts';
import type { Stream } from './streams.ts';

/** A point that can be sent, since its time is known. */
export interface SpooledPoint {
  readonly atMs: number;
  /** JSON. */
  readonly text: string;
  /** The seq of its row; undefined: it is only in memory. */
  readonly seq: number | undefined;
  readonly receipt?: Acknowledgement | undefined;
}

/**
 * Points of one event on their way to the service, oldest first, and how far they have come. `live`: from memory,
 * `backlog`: from the disk.
 */
export class Batch<Point extends SpooledPoint = SpooledPoint> {
  readonly lane: 'live' | 'backlog';
  readonly stream: Stream;
  readonly points: readonly Point[];
  /** The table of its rows: damage may have given the stream another class. */
  readonly class: PointClass;
  #settled = 0;

  constructor(lane: Batch['lane'], stream: Stream, points: readonly Point[], table = stream.class) {
    this.lane = lane;
    this.stream = stream;
    this.points = points;
    this.class = table;
  }

  get event(): string {
    return this.stream.event;
  }

  /** The first point that is not settled; undefined: all are. */
  get next(): Point | undefined {
    return this.points[this.#settled];
  }

  get left(): readonly Point[] {
    return this.points.slice(this.#settled);
  }

  /** Settles the next `count` points, which the service has or will never accept. Returns them. */
  acknowledge(count: number): readonly Point[] {
    const settled = this.points.slice(this.#settled, this.#settled + count);
    this.#settled += settled.length;
    return settled;
  }
}
