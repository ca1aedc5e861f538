import { pointBytes, pointClasses } from '../point.ts';
import type { PointClass } from '../point.ts';
import { totalOf } from './database/records.ts';
import type { QueueTotals, StoredPoint } from './database/records.ts';
import type { SpoolDatabase } from './database/spool-database.ts';
import type { DropReason } from './drops.ts';

const CHUNK = 500;

export interface ClassBounds {
  readonly maxBytes: number;
  readonly maxAgeMs: number;
}

export type SpoolBounds = Readonly<Record<PointClass, ClassBounds>> & {
  /** The bound for all classes together. */
  readonly maxBytes: number;
};

export interface Evicted {
  readonly reason: DropReason;
  readonly points: number;
}

/**
 * Removes what exceeds the bounds: the oldest points of a class, or of the lowest class if all together are too much.
 * `ageMs` tells how long a point has waited; undefined: not known yet.
 */
export function evict(
  db: SpoolDatabase,
  bounds: SpoolBounds,
  ageMs: (point: StoredPoint) => number | undefined,
): readonly Evicted[] {
  const evicted: Evicted[] = [];
  let holdings = db.holdings();
  const take = (table: PointClass, reason: DropReason, mustGo: (oldest: StoredPoint) => boolean): void => {
    for (const points of evictFront(db, table, mustGo)) {
      evicted.push({ reason, points });
      holdings = db.holdings();
    }
  };
  for (const table of pointClasses) {
    const { maxAgeMs, maxBytes } = bounds[table];
    take(table, 'too-old', (oldest) => (ageMs(oldest) ?? 0) > maxAgeMs);
    take(table, 'queue-full', beyond(holdings[table].bytes - maxBytes));
  }
  for (const table of pointClasses.toReversed()) {
    take(table, 'queue-full', beyond(totalOf(holdings).bytes - bounds.maxBytes));
  }
  return evicted;
}

export function isBeyond(holdings: QueueTotals, bounds: SpoolBounds): boolean {
  const isClassBeyond = pointClasses.some((table) => holdings[table].bytes > bounds[table].maxBytes);
  return isClassBeyond || totalOf(holdings).bytes > bounds.maxBytes;
}

/** Selects the oldest points until so many bytes are removed. */
function beyond(bytes: number): (oldest: StoredPoint) => boolean {
  let left = bytes;
  return ({ text }) => {
    if (left <= 0) return false;
    left -= pointBytes(text);
    return true;
  };
}

/** Removes the oldest points piece by piece. Yields how many were removed. */
function* evictFront(
  db: SpoolDatabase,
  table: PointClass,
  mustGo: (oldest: StoredPoint) => boolean,
): Generator<number, void, undefined> {
  for (let limit = 1; ; limit = CHUNK) {
    const rows = db.oldest(table, limit);
    const first = rows[0];
    const kept = rows.findIndex((row) => !mustGo(row));
    const last = rows[kept === -1 ? rows.length - 1 : kept - 1];
    if (first === undefined || last === undefined) return;
    yield db.remove({ class: table, first: first.seq, last: last.seq });
    if (kept !== -1) return;
  }
}
