import type { Boots } from '../clock/boots.ts';
import { TelemetryError } from '../errors.ts';
import { Batch } from './batch.ts';
import type { Lane, TimedPoint } from './batch.ts';
import { classOf } from './database/records.ts';
import type { StoredPoint } from './database/records.ts';
import type { Stream, StreamRegistry } from './streams.ts';

/** The rows that were read together. */
export interface Window {
  /** By class and stream, up to the first datapoint of a stream without a time. */
  readonly groups: readonly (readonly TimedPoint[])[];
  readonly found: ReadonlySet<Stream>;
  readonly rows: number;
}

/** Groups rows by class and stream. Throws `queue-damaged` for a row that belongs to no stream. */
export function readWindow(
  rows: Iterable<StoredPoint>,
  { streams, boots }: { readonly streams: StreamRegistry; readonly boots: Boots },
): Window {
  const groups = new Map<string, TimedPoint[]>();
  const found = new Set<Stream>();
  const untimed = new Set<Stream>();
  let count = 0;
  for (const { seq, stream: id, atMs: storedMs, boot, sinceBootMs, text } of rows) {
    count += 1;
    const stream = streams.byId(id);
    if (stream === undefined) {
      throw new TelemetryError('queue-damaged', 'the queue is damaged: a datapoint belongs to no event');
    }
    found.add(stream);
    const atMs = storedMs ?? boots.wallMs(boot, sinceBootMs);
    if (atMs === undefined) untimed.add(stream);
    if (atMs === undefined || untimed.has(stream)) continue;
    const rowClass = classOf(seq);
    const point = { stream, class: rowClass, atMs, sinceBootMs, text, revision: stream.revision, seq };
    const key = `${rowClass} ${id}`;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [point]);
    else group.push(point);
  }
  return { groups: [...groups.values()], found, rows: count };
}

export function batchesOf(lane: Lane, points: readonly TimedPoint[], limit: number): Batch[] {
  const batches: Batch[] = [];
  for (let start = 0; start < points.length; start += limit) {
    const some = points.slice(start, start + limit);
    if (some[0] !== undefined) batches.push(new Batch(lane, some[0].stream, some));
  }
  return batches;
}
