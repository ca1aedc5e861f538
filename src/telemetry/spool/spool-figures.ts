import type { DropCounts } from './drops.ts';

/** The state of the spool, for a person and for the service. */
export interface SpoolFigures {
  readonly pointsInMemory: number;
  readonly pointsOnDisk: number;
  /** The size of the points on disk; the file is larger. */
  readonly bytesOnDisk: number;
  readonly fileBytes: number;
  /** The age of the oldest point on disk; undefined: there is none, or its age is not known yet. */
  readonly oldestAgeMs: number | undefined;
  readonly properties: number;
  readonly dropped: DropCounts;
  readonly deadLetters: number;
  readonly flashBytesPerDay: number;
  /** The number of boots whose clock was never set: the times of their points are the latest possible ones. */
  readonly estimatedBoots: number;
  /** Why nothing can be stored now; undefined: it can. */
  readonly trouble: string | undefined;
}
