import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { gunzipSync } from 'node:zlib';

import { expect, test } from 'vitest';

import { TelemetryError } from '../../../../src/telemetry/errors.ts';
import { pointBytes } from '../../../../src/telemetry/point.ts';
import { SpoolDatabase } from '../../../../src/telemetry/queue/database/spool-database.ts';
import { rigWithLateDisk, SpoolRig, ampleBounds, drain, noEvents, point, points, values } from './spool-rig.ts';

/**
 * As agents wrote it until 23 November 2026, killed in its second boot: both boots have a point without a time, of `temperature` four
 * were delivered in the second. Gzip in base64, with the write-ahead log.
 */
const ofNovember = JSON.parse(readFileSync(new URL('spool-of-november-2026.json', import.meta.url), 'utf8')) as {
  readonly file: string;
  readonly log: string;
};

/** A queue that finds that file, with this share of its write-ahead log. */
function rigOfNovember(logShare: number): SpoolRig {
  const rig = new SpoolRig({ bootName: 'boot-2' });
  const [file, log] = [ofNovember.file, ofNovember.log].map((text) => gunzipSync(Buffer.from(text, 'base64')));
  if (file === undefined || log === undefined) throw new Error('there are two files');
  rig.crash((path) => {
    writeFileSync(path, file);
    writeFileSync(`${path}-wal`, log.subarray(0, Math.floor(log.byteLength * logShare)));
  });
  return rig;
}

function arrivedOf(rig: SpoolRig): ReadonlyMap<string, readonly unknown[]> {
  const batches = Map.groupBy(drain(rig.spool), ({ event }) => event);
  return new Map(batches.entries().map(([event, of]) => [event, of.flatMap(values)]));
}

const numbers = (first: number, last: number): number[] =>
  Array.from({ length: last - first + 1 }, (_, index) => first + index);

test('a file of an earlier agent that was killed is used as it is, and continues', () => {
  using rig = rigOfNovember(1);
  expect(rig.spool.figures()).toMatchObject({ pointsOnDisk: 26, bytesOnDisk: 891, properties: 2, deadLetters: 1 });
  rig.spool.learnClock(rig.clock.nowMs() - rig.sinceBootMs);
  rig.spool.push(points(2, 'temperature'));
  expect(rig.spool.flush()).toBe(true);
  const arrived = arrivedOf(rig);
  expect(arrived).toEqual(
    new Map<string, unknown[]>([
      ['alarm', numbers(0, 2)],
      ['temperature', [...numbers(4, 19), 0, 1]],
      ['untimed', ['before the clock', 'after']],
      ['log', numbers(0, 4)],
    ]),
  );
  rig.spool.flush();
  expect(rig.spool.figures()).toMatchObject({ pointsOnDisk: 0, bytesOnDisk: 0, dropped: { damaged: 0 } });
  expect(rig.spool.deadLetters(2)).toMatchObject([{ event: 'bad', text: '"refused"', reason: 'not of this kind' }]);
  expect(rig.spool.takeProperty(new Set(['serial']))).toMatchObject({ id: 'door', text: '"shut"' });
});

test.each([0, 0.1, 0.3, 0.5, 0.7, 0.9])(
  'and so is one whose write-ahead log was truncated at %d of it: the previous data is there',
  (share) => {
    using rig = rigOfNovember(share);
    const { pointsOnDisk } = rig.spool.figures();
    rig.spool.learnClock(rig.clock.nowMs() - rig.sinceBootMs);
    const arrived = arrivedOf(rig);
    expect(arrived.get('temperature')?.slice(-16)).toEqual(numbers(4, 19));
    expect(arrived.get('untimed')?.[0]).toBe('before the clock');
    expect(arrived.values().reduce((sum, { length }) => sum + length, 0)).toBe(pointsOnDisk);
    expect(rig.spool.figures().dropped.damaged).toBe(0);
  },
);

// Regression: "UNIQUE constraint failed", and nothing was written until the agent was restarted.
test('a disk that appears after the agent, with fewer points than arrived until then', () => {
  using rig = new SpoolRig();
  rig.spool.push(points(3));
  rig.spool[Symbol.dispose]();
  const { late: made, arrive } = rigWithLateDisk(rig.path);
  using late = made;
  late.spool.push(points(5, 'new'));
  const held = late.spool.takeLive(2, noEvents);
  arrive();
  expect(late.spool.flush()).toBe(true);
  if (held === undefined) throw new Error('there is a batch');
  late.spool.accepted(held, 1);
  late.spool.release(held);
  expect(arrivedOf(late)).toEqual(
    new Map([
      ['e', numbers(0, 2)],
      ['new', numbers(1, 4)],
    ]),
  );
});

// Regression: the same. Data whose flush failed may be there when the disk is.
test('a disk that fails to write, and has written all the same', () => {
  let fails = false;
  using rig = new SpoolRig({
    open: (path) => {
      const db = SpoolDatabase.open(path);
      const transaction = db.transaction.bind(db);
      db.transaction = (work) => {
        transaction(work);
        if (fails) throw new TelemetryError('queue-unwritable', 'the disk fails, as the test wants');
      };
      return db;
    },
  });
  rig.spool.push(points(3));
  fails = true;
  expect(rig.spool.flush()).toBe(false);
  fails = false;
  rig.clock.advance(31_000);
  rig.spool.push([point(3)]);
  expect(rig.spool.flush()).toBe(true);
  rig.crash();
  expect(new Set(drain(rig.spool).flatMap(values))).toEqual(new Set(numbers(0, 3)));
});

// Regression: a RangeError at each start for numbers, and for invalid JSON the backlog retried for ever. SQLite has no
// checksums of pages.
test.each([
  'seq = 4611686018427387904',
  'seq = 9007199254740991',
  'at = 4611686018427387904',
  'ms = 4611686018427387904',
  "value = '{'",
  'at = 9000000000000000',
  "at = 'x'",
  'stream = 99',
])('a row that damage has left readable (%s) is dropped and counted, and all others arrive', (damage) => {
  using rig = new SpoolRig();
  rig.spool.push(points(5));
  rig.restart();
  rig.crash((path) => changeFile(path, `UPDATE normal SET ${damage} WHERE seq = 5`));
  rig.spool.push([point('after')]);
  expect(rig.spool.flush()).toBe(true);
  expect(arrivedOf(rig)).toEqual(new Map([['e', [...numbers(0, 3), 'after']]]));
  expect(rig.spool.figures().dropped.damaged).toBe(1);
});

test('counts that damage has made unreadable cost no point', () => {
  using rig = new SpoolRig();
  rig.spool.push(points(5));
  rig.restart();
  rig.crash((path) => changeFile(path, 'UPDATE streams SET points = 4611686018427387904'));
  expect(arrivedOf(rig)).toEqual(new Map([['e', numbers(0, 4)]]));
  expect(rig.spool.flush()).toBe(true);
  expect(rig.spool.figures()).toMatchObject({ pointsOnDisk: 0, dropped: { damaged: 0 } });
});

// Regression: points were not sent before another one arrived, and every new point was dropped for lack of space.
test.each(['points = 0, bytes = 0', 'points = -5, bytes = -3', 'points = 4000, bytes = 2000000000000', "points = 'x'"])(
  'counts that damage has left readable (%s) cost no point and become right',
  (damage) => {
    using rig = new SpoolRig();
    rig.spool.push(points(5));
    rig.restart();
    rig.crash((path) => changeFile(path, `UPDATE streams SET ${damage}`));
    rig.spool.push(points(3, 'new'));
    expect(rig.spool.flush()).toBe(true);
    expect(arrivedOf(rig)).toEqual(
      new Map([
        ['e', numbers(0, 4)],
        ['new', numbers(0, 2)],
      ]),
    );
    expect(rig.spool.flush()).toBe(true);
    expect(rig.spool.figures()).toMatchObject({ pointsOnDisk: 0, bytesOnDisk: 0, dropped: { 'queue-full': 0 } });
  },
);

test('backlog waits for no new point where damage has set the counts to zero', () => {
  using rig = new SpoolRig();
  rig.spool.push(points(5));
  rig.restart();
  rig.crash((path) => changeFile(path, 'UPDATE streams SET points = 0'));
  expect(arrivedOf(rig)).toEqual(new Map([['e', numbers(0, 4)]]));
});

// Regression: the same points again and again, without end.
test('points whose event damage has given another class arrive once', () => {
  using rig = new SpoolRig();
  rig.spool.push(points(5, 'e', 'bulk'));
  rig.restart();
  rig.crash((path) => changeFile(path, "UPDATE streams SET class = 'bulj'"));
  const batch = rig.spool.takeBacklog(10, noEvents);
  if (batch === undefined) throw new Error('there is a batch');
  rig.spool.accepted(batch, 5);
  rig.spool.release(batch);
  expect(rig.spool.takeBacklog(10, noEvents)).toBeUndefined();
});

// Regression: a SyntaxError in the delivery, at each start.
test('a property whose value damage has made no JSON is left out', () => {
  using rig = new SpoolRig();
  rig.spool.setProperty('door', 'shut');
  rig.spool.setProperty('mode', 'eco');
  rig.restart();
  rig.crash((path) => changeFile(path, "UPDATE properties SET value = '{' WHERE id = 'door'"));
  expect(rig.spool.takeProperty(noEvents)).toMatchObject({ id: 'mode' });
});

// Regression: three quarters of the points were gone with the damaged file, and none was counted.
test('a salvage that finds no room is begun again, and loses no more for that', () => {
  let writes = Number.POSITIVE_INFINITY;
  using rig = new SpoolRig({
    maxMemoryPoints: 100_000,
    open: (path) => {
      const db = SpoolDatabase.open(path);
      const transaction = db.transaction.bind(db);
      db.transaction = (work) => {
        writes -= 1;
        if (writes < 0) throw new TelemetryError('queue-full', 'the disk is full, as the test wants');
        transaction(work);
      };
      return db;
    },
  });
  rig.spool.push(points(4_000));
  rig.restart();
  rig.crash((path) => {
    const bytes = readFileSync(path);
    bytes.fill(0xa5, 20 * 4096, 21 * 4096);
    writeFileSync(path, bytes);
  });
  writes = 3;
  const arrived = new Set(drain(rig.spool).flatMap(values));
  expect(rig.spool.figures().error).toBeDefined();
  writes = Number.POSITIVE_INFINITY;
  rig.clock.advance(31_000);
  for (const value of drain(rig.spool).flatMap(values)) arrived.add(value);
  const { damaged } = rig.spool.figures().dropped;
  expect(damaged).toBeGreaterThan(0);
  expect(damaged).toBeLessThan(300);
  expect(arrived.size + damaged).toBe(4_000);
});

test('the database’s counts match its content after any arrivals, deliveries, drops and repairs', () => {
  using rig = new SpoolRig({ bounds: { ...ampleBounds, bulk: { maxBytes: 50 * 40, maxAgeMs: 2 ** 40 } } });
  const expectCounted = (): void => {
    const { points: rows, bytes } = rowsOf(rig);
    expect(rig.spool.figures()).toMatchObject({ pointsOnDisk: rows, bytesOnDisk: bytes });
    expect(rows).toBeGreaterThan(0);
  };
  rig.spool.push([
    ...points(2_000, 'a'),
    ...points(100, 'ü', 'bulk'),
    point('ä'.repeat(50)),
    ...points(7, 'a', 'urgent'),
  ]);
  rig.spool.flush();
  expectCounted();
  expect(rig.spool.figures().dropped['queue-full']).toBeGreaterThan(40);
  for (const count of [3, 20]) {
    const batch = rig.spool.takeBacklog(50, noEvents);
    if (batch === undefined) throw new Error('there is a batch');
    rig.spool.accepted(batch, count);
    rig.spool.release(batch);
    rig.spool.flush();
    expectCounted();
  }
  rig.restart();
  rig.crash((path) => {
    const bytes = readFileSync(path);
    bytes.fill(0xa5, 15 * 4096, 16 * 4096);
    writeFileSync(path, bytes);
  });
  rig.spool.takeBacklog(5_000, new Set(['ü']));
  expectCounted();
});

function changeFile(path: string, sql: string): void {
  const db = new DatabaseSync(path);
  db.exec(sql);
  db.close();
}

/** Reads a copy of the file that is not open elsewhere. */
function rowsOf({ directory, path }: SpoolRig): { readonly points: number; readonly bytes: number } {
  const copy = join(directory, 'copy.db');
  for (const suffix of ['', '-wal']) copyFileSync(`${path}${suffix}`, `${copy}${suffix}`);
  const db = new DatabaseSync(copy);
  try {
    const texts = ['urgent', 'normal', 'bulk'].flatMap((table) => db.prepare(`SELECT value FROM ${table}`).all());
    return { points: texts.length, bytes: texts.reduce((sum, { value }) => sum + pointBytes(String(value)), 0) };
  } finally {
    db.close();
  }
}
