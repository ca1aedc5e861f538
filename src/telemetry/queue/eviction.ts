import { pointBytes, pointClasses } from '../point.ts';
import type { PointClass } from '../point.ts';
import type { QueueDatabase } from './database/queue-database.ts';
import { count, rangeOf, totalOf } from './database/records.ts';
import type { StoredPoint, Totals } from './database/records.ts';
import type { DropReason } from './drops.ts';

export interface ClassBounds {
  readonly maxBytes: number;
  readonly maxAgeMs: number;
}

export type QueueBounds = Readonly<Record<PointClass, ClassBounds>> & {
  /** The bound for all classes together. */
  readonly maxBytes: number;
};

export interface Evicted {
  readonly reason: DropReason;
  readonly points: number;
}

/**
 * Removes what exceeds the bounds, and adjusts the totals: the oldest datapoints of a class, or of the lowest class if
 * all together are too much. `ageMs` returns how long a datapoint has waited, or undefined if that is unknown.
 */
export function evict(
  db: QueueDatabase,
  { bounds, totals }: { readonly bounds: QueueBounds; readonly totals: Totals },
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
    if (last === undefined) return;
    const gone = db.remove({ ...range, last });
    count(totals, pointClass, -1, gone);
    evicted.push({ reason, points: gone.points });
  };
  for (const pointClass of pointClasses) {
    const { maxAgeMs, maxBytes } = bounds[pointClass];
    drop(pointClass, 'too-old', (oldest) => (ageMs(oldest) ?? 0) > maxAgeMs);
    drop(pointClass, 'queue-full', beyond(totals[pointClass].bytes - maxBytes));
  }
  for (const pointClass of pointClasses.toReversed()) {
    drop(pointClass, 'queue-full', beyond(totalOf(totals).bytes - bounds.maxBytes));
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
