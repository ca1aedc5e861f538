import type { Acknowledgement } from '../delivery/acknowledgement.ts';
import type { RowClass } from './database/records.ts';
import type { Stream } from './streams.ts';

/** A datapoint, or a value of a property, until it is settled. */
export interface QueuedPoint {
  readonly stream: Stream;
  readonly class: RowClass;
  /** Omitted while the clock is not set. */
  readonly atMs: number | undefined;
  readonly sinceBootMs: number;
  /** JSON. */
  readonly text: string;
  /** The stream's revision when it came. A property has a newer value if they differ. */
  readonly revision: number;
  readonly ack?: Acknowledgement | undefined;
  /** The seq of its row. Undefined if it is only in memory. */
  seq: number | undefined;
}

/** Its time is known, so that it can be sent. */
export type TimedPoint = QueuedPoint & { readonly atMs: number };

/** `live`: datapoints from memory, `backlog`: datapoints from the disk, `property`: values of properties from both. */
export type Lane = 'live' | 'backlog' | 'property';

/** Datapoints of one stream on their way to the service, oldest first, and how far they have come. */
export class Batch {
  readonly lane: Lane;
  readonly stream: Stream;
  readonly points: readonly TimedPoint[];
  #settled = 0;

  constructor(lane: Lane, stream: Stream, points: readonly TimedPoint[]) {
    this.lane = lane;
    this.stream = stream;
    this.points = points;
  }

  /** True if it holds no value of a property that has a newer one. */
  get isCurrent(): boolean {
    return this.points.every(isCurrent);
  }

  /** The first datapoint that is not settled. Undefined if all are. */
  get next(): TimedPoint | undefined {
    return this.points[this.#settled];
  }

  get left(): readonly TimedPoint[] {
    return this.points.slice(this.#settled);
  }

  /** Settles the next `count` datapoints, which the service has or will never accept. Returns them. */
  acknowledge(count: number): readonly TimedPoint[] {
    const settled = this.points.slice(this.#settled, this.#settled + count);
    this.#settled += settled.length;
    return settled;
  }
}

export function isCurrent({ stream, revision }: QueuedPoint): boolean {
  return stream.revision === revision;
}
