import type { PointClass, SpooledPoint } from '../point.ts';
import type { LivePoint } from './pending-points.ts';
import type { Stream } from './streams.ts';

/** Points of one event, handed out for delivery; frozen. `live`: they come from memory, `backlog`: from the disk. */
export interface Batch {
  readonly lane: 'live' | 'backlog';
  readonly event: string;
  readonly class: PointClass;
  readonly points: readonly SpooledPoint[];
}

/** What the spool keeps about a batch. */
export interface HeldBatch {
  readonly batch: Batch;
  readonly stream: Stream;
  /** Of a live batch: what is in memory only, until it is settled or stored. */
  readonly live: LivePoint[];
  /** What its seqs have grown by since. */
  shift: number;
}
