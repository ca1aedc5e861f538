import { pointClasses } from '../../point.ts';
import type { PointClass } from '../../point.ts';
import { isWhole, maxSeq, totalOf } from './records.ts';
import type { StoredPoint, StreamRecord } from './records.ts';
import type { SpoolDatabase } from './spool-database.ts';

const CHUNK = 512;
/** The number of reads that may fail, so that a file of garbage comes to an end, too. */
const MAX_FAILURES = 5_000;

/**
 * Every readable point of a damaged table, in order and in chunks. Parts that cannot be read are skipped in growing
 * steps.
 */
function* readableRows(from: SpoolDatabase, table: PointClass, lastSeq: number): Generator<readonly StoredPoint[]> {
  let after = 0;
  let limit = CHUNK;
  let step = 1;
  for (let failures = 0; failures < MAX_FAILURES && after < lastSeq;) {
    const rows = attempt(() => from.after(table, after, limit));
    if (rows === undefined) {
      failures += 1;
      if (limit > 1) limit = Math.max(1, limit >> 3);
      else {
        after += step;
        step *= 2;
      }
      continue;
    }
    const last = rows.at(-1);
    if (last === undefined) return;
    yield rows;
    after = last.seq;
    limit = Math.min(CHUNK, limit * 2);
    step = 1;
  }
}

/** What the spool has in memory, in case the file cannot tell it any more. */
export interface InMemoryState {
  readonly streams: readonly StreamRecord[];
  readonly points: number;
  readonly lastSeq: number;
}

/**
 * Copies what a damaged spool still holds into a new one, point for point. Streams whose name is not known are left
 * out. Returns the number of points that are missing.
 */
export function salvage(from: SpoolDatabase, to: SpoolDatabase, remembered: InMemoryState): number {
  const streams = attempt(() => from.streams()) ?? remembered.streams;
  const points = attempt(() => totalOf(from.holdings()).points) ?? remembered.points;
  const lastSeq = attempt(() => from.lastSeq()) ?? (remembered.lastSeq || maxSeq);
  const properties = attempt(() => from.properties()) ?? [];
  const boots = attempt(() => from.boots()) ?? [];
  to.transaction(() => {
    for (const [id, text] of properties) to.saveProperty(id, text);
    for (const boot of boots) to.saveBoot(boot);
    for (const stream of streams) to.saveStream(stream);
  });
  const ids = new Set(streams.map(({ id }) => id));
  let seen = 0;
  for (const table of pointClasses) {
    for (const rows of readableRows(from, table, lastSeq)) {
      seen += rows.length;
      const known = rows.filter((row) => ids.has(row.stream) && isWhole(row));
      to.transaction(() => to.addPoints(table, known));
    }
  }
  return Math.max(0, Math.max(points, seen) - totalOf(to.holdings()).points);
}

/** The result of a read; undefined: the file cannot be read there. */
export function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'queue-damaged') return undefined;
    throw error;
  }
}
