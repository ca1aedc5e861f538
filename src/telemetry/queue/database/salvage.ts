import { AgentError, undefinedIfThrows } from '../../../system/errors.ts';
import type { QueueDatabase } from './queue-database.ts';
import { isWhole, rangeOf, totalOf, wholeRange } from './records.ts';
import type { StoredPoint, StreamRecord } from './records.ts';

const CHUNK = 512;
/** The number of reads that may fail, so that a file of garbage ends, too. */
const MAX_FAILURES = 5_000;

/** Every readable row of a damaged file, in order and in chunks. Unreadable parts are skipped in growing steps. */
function* readableRows(from: QueueDatabase): Generator<readonly StoredPoint[]> {
  let after = wholeRange.first;
  let limit = CHUNK;
  let step = 1;
  for (let failures = 0; failures < MAX_FAILURES && after < wholeRange.last;) {
    const rows = readIfWhole(() => from.after(after, limit));
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

/** The state of the queue that is known without its file. */
export interface InMemoryState {
  readonly streams: readonly StreamRecord[];
  readonly points: number;
}

/**
 * Copies the readable rows of a damaged queue into a new one. Rows of a stream whose name is unknown are left out.
 * Returns the number of datapoints that are missing.
 */
export function salvage(from: QueueDatabase, to: QueueDatabase, remembered: InMemoryState): number {
  const streams = readIfWhole(() => from.streams()) ?? remembered.streams;
  const points = readIfWhole(() => from.expectedPoints()) ?? remembered.points;
  const boots = readIfWhole(() => from.boots()) ?? [];
  to.transaction(() => {
    for (const boot of boots) to.saveBoot(boot);
    for (const stream of streams) to.saveStream(stream);
  });
  const ids = new Set(streams.map(({ id }) => id));
  const properties = rangeOf('property');
  let seen = 0;
  for (const rows of readableRows(from)) {
    const known = rows.filter((row) => ids.has(row.stream) && isWhole(row));
    seen += rows.filter(({ seq }) => seq < properties.first || seq > properties.last).length;
    to.transaction(() => to.add(known));
  }
  return Math.max(0, Math.max(points, seen) - totalOf(to.totals).points);
}

/** Returns the result of a read, or undefined if the file cannot be read there. */
export function readIfWhole<T>(read: () => T): T | undefined {
  return undefinedIfThrows((error) => error instanceof AgentError && error.code === 'queue-damaged', read);
}
