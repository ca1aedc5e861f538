import type { DropCounts } from './drops.ts';

/** How the spool is, for a person and for the service. */
export interface SpoolFigures {
  readonly pointsInMemory: number;
  readonly pointsOnDisk: number;
  /** Of the points on disk; the file has more. */
  readonly bytesOnDisk: number;
  readonly fileBytes: number;
  /** Of the points on disk; undefined: there are none, or nobody knows yet. */
  readonly oldestAgeMs: number | undefined;
  readonly properties: number;
  readonly dropped: DropCounts;
  readonly deadLetters: number;
  readonly flashBytesPerDay: number;
  /** Boots whose clock was never set: the times of their points are the latest that are possible. */
  readonly estimatedBoots: number;
  /** Why nothing is on disk now. */
  readonly trouble: string | undefined;
}
