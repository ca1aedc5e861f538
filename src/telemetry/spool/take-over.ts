import { existsSync, rmSync } from 'node:fs';

import { describeError } from '../../system/errors.ts';
import { parseExactly } from '../../system/json-value.ts';
import type { Log } from '../../system/log/log.ts';
import { TelemetryError } from '../errors.ts';
import { pointClasses } from '../point.ts';
import type { NewPoint, PointClass, PointTime } from '../point.ts';
import type { BootRecord, StoredPoint } from './database/records.ts';
import { SpoolDatabase } from './database/spool-database.ts';
import type { Spool } from './spool.ts';

const CHUNK = 256;

/**
 * Takes the points of a second spool into this one, and removes the second one, which `systemd/own-folders` puts there
 * where the agent ran as another user meanwhile. After a power cut in between some points are sent twice, with the same
 * time. Promise `datapoints`: points that cannot be taken stay for the next start.
 */
export function takeOver(path: string, spool: Spool, log: Log): void {
  if (!existsSync(path)) return;
  try {
    using from = SpoolDatabase.open(path);
    const points = pointClasses.reduce((sum, table) => sum + takeTable(from, table, spool), 0);
    for (const [id, text] of from.properties()) spool.setProperty(id, parseExactly(text));
    if (!spool.flush()) throw new TelemetryError('spool-unwritable', 'the spool takes nothing now');
    log.info({ points }, 'the points of another process were taken over');
  } catch (error) {
    if (!(error instanceof TelemetryError) && !(error instanceof SyntaxError)) throw error;
    log.error({ path, error: describeError(error) }, 'the points of another process cannot be taken over');
    return;
  }
  for (const suffix of ['-wal', '']) rmSync(`${path}${suffix}`, { force: true });
}

function takeTable(from: SpoolDatabase, table: PointClass, spool: Spool): number {
  const events = new Map(from.streams().map(({ id, event }) => [id, event]));
  const boots = new Map(from.boots().map((boot) => [boot.id, boot]));
  let taken = 0;
  for (let rows = from.after(table, 0, CHUNK); rows.length > 0; rows = from.after(table, lastSeq(rows), CHUNK)) {
    const points = rows.flatMap((row): readonly NewPoint[] => {
      const event = events.get(row.stream);
      if (event === undefined) return [];
      return [{ event, class: table, value: parseExactly(row.text), time: timeOf(row, boots.get(row.boot)) }];
    });
    spool.push(points);
    if (!spool.flush()) throw new TelemetryError('spool-unwritable', 'the spool takes nothing now');
    taken += points.length;
  }
  return taken;
}

function lastSeq(rows: readonly StoredPoint[]): number {
  return rows.at(-1)?.seq ?? Number.POSITIVE_INFINITY;
}

/** A point from a boot whose clock was never set is dated as if it came in this boot. */
function timeOf({ atMs, sinceBootMs }: StoredPoint, boot: BootRecord | undefined): PointTime {
  if (atMs !== undefined) return { kind: 'given', atMs };
  if (boot?.startedAtMs === undefined) return { kind: 'since-boot' };
  return { kind: 'given', atMs: boot.startedAtMs + sinceBootMs };
}
