import { pointBytes, pointClasses } from '../point.ts';
import type { DropReason, PointClass } from '../point.ts';
import type { SpoolDatabase, StoredPoint, Tally } from './database/spool-database.ts';

const CHUNK = 500;

export interface ClassBounds {
  readonly maxBytes: number;
  readonly maxAgeMs: number;
}

export type SpoolBounds = Readonly<Record<PointClass, ClassBounds>> & {
  /** Of all classes together. */
  readonly maxBytes: number;
};

export interface Evicted extends Tally {
  readonly reason: DropReason;
  readonly class: PointClass;
}

/** What there is, so that bounds can be compared with it. */
export interface Holdings {
  readonly bytes: Record<PointClass, number>;
  /** How long a point has waited; undefined: nobody knows yet. */
  readonly ageMs: (point: StoredPoint) => number | undefined;
}

/** Takes away what is beyond the bounds: the oldest of a class; where all together are too much, of the lowest class. */
export function evict(db: SpoolDatabase, bounds: SpoolBounds, holdings: Holdings): readonly Evicted[] {
  const evicted: Evicted[] = [];
  const take = (table: PointClass, reason: DropReason, mustGo: (oldest: StoredPoint) => boolean): void => {
    for (const tally of evictFront(db, table, mustGo)) {
      holdings.bytes[table] -= tally.bytes;
      evicted.push({ ...tally, reason, class: table });
    }
  };
  for (const table of pointClasses) {
    const { maxAgeMs, maxBytes } = bounds[table];
    take(table, 'too-old', (oldest) => (holdings.ageMs(oldest) ?? 0) > maxAgeMs);
    take(table, 'spool-full', beyond(holdings.bytes[table] - maxBytes));
  }
  for (const table of pointClasses.toReversed()) {
    const all = pointClasses.reduce((sum, name) => sum + holdings.bytes[name], 0);
    take(table, 'spool-full', beyond(all - bounds.maxBytes));
  }
  return evicted;
}

/** The oldest, until so many bytes are gone. */
function beyond(bytes: number): (oldest: StoredPoint) => boolean {
  let left = bytes;
  return ({ text }) => {
    if (left <= 0) return false;
    left -= pointBytes(text);
    return true;
  };
}

function* evictFront(
  db: SpoolDatabase,
  table: PointClass,
  mustGo: (oldest: StoredPoint) => boolean,
): Generator<Tally, void, undefined> {
  for (let limit = 1; ; limit = CHUNK) {
    const rows = db.oldest(table, limit);
    const first = rows[0];
    const kept = rows.findIndex((row) => !mustGo(row));
    const last = rows[kept === -1 ? rows.length - 1 : kept - 1];
    if (first === undefined || last === undefined) return;
    yield* db.remove({ class: table, first: first.seq, last: last.seq });
    if (kept !== -1) return;
  }
}
