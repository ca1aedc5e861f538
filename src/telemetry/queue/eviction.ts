import type { QueueStats } from '../../control/telemetry-protocol.ts';
import { pointBytes, pointClasses } from '../point.ts';
import type { PointClass } from '../point.ts';
import type { TelemetrySettings } from '../settings.ts';
import type { QueueDatabase } from './database/queue-database.ts';
import { rangeOf, totalOf } from './database/records.ts';
import type { StoredPoint } from './database/records.ts';

/** The reason why a datapoint was not delivered. */
export type DropReason = keyof QueueStats['dropped'];

/** Returns a count for each reason. */
export function noDrops(): Record<DropReason, number> {
  return { 'too-old': 0, 'queue-full': 0, 'memory-full': 0, refused: 0, damaged: 0 };
}

/** The bounds of each class, and for all together. */
export type QueueBounds = Pick<TelemetrySettings, PointClass | 'maxBytes'>;

export interface Evicted {
  readonly reason: DropReason;
  readonly points: number;
}

/**
 * Removes what exceeds the bounds: the oldest datapoints of a class, or of the lowest class if all together are too much.
 * `ageMs` returns how long a datapoint has waited, or undefined if that is unknown.
 */
export function evict(
  db: QueueDatabase,
  bounds: QueueBounds,
  ageMs: (point: StoredPoint) => number | undefined,
): readonly Evicted[] {
  const evicted: Evicted[] = [];
  const drop = (pointClass: PointClass, reason: DropReason, mustGo: (oldest: StoredPoint) => boolean): void => {
    const range = rangeOf(pointClass);
    let last: number | undefined;
    for (const oldest of db.rows(range)) {
      if (!mustGo(oldest)) break;
      last = oldest.seq;
    }
    if (last !== undefined) evicted.push({ reason, points: db.remove({ ...range, last }) });
  };
  for (const pointClass of pointClasses) {
    const { maxAgeMs, maxBytes } = bounds[pointClass];
    drop(pointClass, 'too-old', (oldest) => (ageMs(oldest) ?? 0) > maxAgeMs);
    drop(pointClass, 'queue-full', beyond(db.totals[pointClass].bytes - maxBytes));
  }
  for (const pointClass of pointClasses.toReversed()) {
    drop(pointClass, 'queue-full', beyond(totalOf(db.totals).bytes - bounds.maxBytes));
  }
  return evicted;
}

/** Selects the oldest datapoints until this number of bytes is removed. */
function beyond(bytes: number): (oldest: StoredPoint) => boolean {
  let left = bytes;
  return ({ text }) => {
    if (left <= 0) return false;
    left -= pointBytes(text);
    return true;
  };
}
