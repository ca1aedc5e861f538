import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

import { expect, test } from 'vitest';

import { TelemetryError } from '../../../../src/telemetry/errors.ts';
import { pointBytes } from '../../../../src/telemetry/point.ts';
import { QueueDatabase } from '../../../../src/telemetry/queue/database/queue-database.ts';
import {
  rigWithLateDisk,
  takeProperty,
  QueueRig,
  ampleBounds,
  drain,
  noStreams,
  point,
  points,
  values,
} from './queue-rig.ts';

function arrivedOf(rig: QueueRig): ReadonlyMap<string, readonly unknown[]> {
  const batches = Map.groupBy(drain(rig.queue), ({ stream }) => stream.name);
  return new Map(batches.entries().map(([event, of]) => [event, of.flatMap(values)]));
}

const numbers = (first: number, last: number): number[] =>
  Array.from({ length: last - first + 1 }, (_, index) => first + index);

// Regression: "UNIQUE constraint failed", and nothing was written until the agent was restarted.
test('a disk that appears after the agent, with fewer points than arrived until then', () => {
  using rig = new QueueRig();
  rig.queue.push(points(3));
  rig.queue[Symbol.dispose]();
  const { late: made, arrive } = rigWithLateDisk(rig.path);
  using late = made;
  late.queue.push(points(5, 'new'));
  const held = late.queue.take('live', 2, noStreams);
  arrive();
  expect(late.queue.flush()).toBe(true);
  if (held === undefined) throw new Error('there is a batch');
  late.queue.accepted(held, 1);
  late.queue.release(held);
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
  using rig = new QueueRig({
    open: (path) => {
      const db = QueueDatabase.open(path);
      const transaction = db.transaction.bind(db);
      db.transaction = (work) => {
        transaction(work);
        if (fails) throw new TelemetryError('queue-unwritable', 'the disk fails, as the test wants');
      };
      return db;
    },
  });
  rig.queue.push(points(3));
  fails = true;
  expect(rig.queue.flush()).toBe(false);
  fails = false;
  rig.clock.advance(31_000);
  rig.queue.push([point(3)]);
  expect(rig.queue.flush()).toBe(true);
  rig.crash();
  expect(new Set(drain(rig.queue).flatMap(values))).toEqual(new Set(numbers(0, 3)));
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
  using rig = new QueueRig();
  rig.queue.push(points(5));
  rig.restart();
  rig.crash((path) => changeFile(path, `UPDATE points SET ${damage} WHERE seq = 5`));
  rig.queue.push([point('after')]);
  expect(rig.queue.flush()).toBe(true);
  expect(arrivedOf(rig)).toEqual(new Map([['e', [...numbers(0, 3), 'after']]]));
  expect(rig.queue.figures().dropped.damaged).toBe(1);
});

// Regression: a SyntaxError in the delivery, at each start.
test('a property whose value damage has made no JSON is left out', () => {
  using rig = new QueueRig();
  rig.queue.setProperty('door', 'shut');
  rig.queue.setProperty('mode', 'eco');
  rig.restart();
  rig.crash((path) => changeFile(path, "UPDATE points SET value = '{' WHERE value = '\"shut\"'"));
  expect([takeProperty(rig), takeProperty(rig)]).toEqual([['mode', '"eco"'], undefined]);
  expect(rig.queue.figures()).toMatchObject({ dropped: { damaged: 0 } });
});

// Regression: three quarters of the points were gone with the damaged file, and none was counted.
test('a salvage that finds no room is begun again, and loses no more for that', () => {
  let writes = Number.POSITIVE_INFINITY;
  using rig = new QueueRig({
    memoryPoints: 100_000,
    open: (path) => {
      const db = QueueDatabase.open(path);
      const transaction = db.transaction.bind(db);
      db.transaction = (work) => {
        writes -= 1;
        if (writes < 0) throw new TelemetryError('queue-full', 'the disk is full, as the test wants');
        transaction(work);
      };
      return db;
    },
  });
  rig.queue.push(points(4_000));
  rig.restart();
  rig.crash((path) => {
    const bytes = readFileSync(path);
    bytes.fill(0xa5, 20 * 4096, 21 * 4096);
    writeFileSync(path, bytes);
  });
  writes = 3;
  const arrived = new Set(drain(rig.queue).flatMap(values));
  expect(rig.queue.figures().error).toBeDefined();
  writes = Number.POSITIVE_INFINITY;
  rig.clock.advance(31_000);
  for (const value of drain(rig.queue).flatMap(values)) arrived.add(value);
  const { damaged } = rig.queue.figures().dropped;
  expect(damaged).toBeGreaterThan(0);
  expect(damaged).toBeLessThan(300);
  expect(arrived.size + damaged).toBe(4_000);
});

test('the database’s counts match its content after any arrivals, deliveries, drops and repairs', () => {
  using rig = new QueueRig({ bounds: { ...ampleBounds, bulk: { maxBytes: 50 * 40, maxAgeMs: 2 ** 40 } } });
  const expectCounted = (): void => {
    const { points: rows, bytes } = rowsOf(rig);
    expect(rig.queue.figures()).toMatchObject({ pointsOnDisk: rows, bytesOnDisk: bytes });
    expect(rows).toBeGreaterThan(0);
  };
  rig.queue.push([
    ...points(2_000, 'a'),
    ...points(100, 'ü', 'bulk'),
    point('ä'.repeat(50)),
    ...points(7, 'a', 'urgent'),
  ]);
  rig.queue.flush();
  expectCounted();
  expect(rig.queue.figures().dropped['queue-full']).toBeGreaterThan(40);
  for (const count of [3, 20]) {
    const batch = rig.queue.take('backlog', 50, noStreams);
    if (batch === undefined) throw new Error('there is a batch');
    rig.queue.accepted(batch, count);
    rig.queue.release(batch);
    rig.queue.flush();
    expectCounted();
  }
  rig.restart();
  rig.crash((path) => {
    const bytes = readFileSync(path);
    bytes.fill(0xa5, 15 * 4096, 16 * 4096);
    writeFileSync(path, bytes);
  });
  rig.queue.take('backlog', 5_000, noStreams);
  expectCounted();
});

function changeFile(path: string, sql: string): void {
  const db = new DatabaseSync(path);
  db.exec(sql);
  db.close();
}

/** Reads a copy of the file that is not open elsewhere. */
function rowsOf({ directory, path }: QueueRig): { readonly points: number; readonly bytes: number } {
  const copy = join(directory, 'copy.db');
  for (const suffix of ['', '-wal']) copyFileSync(`${path}${suffix}`, `${copy}${suffix}`);
  const db = new DatabaseSync(copy);
  try {
    const texts = db.prepare('SELECT value FROM points').all();
    return { points: texts.length, bytes: texts.reduce((sum, { value }) => sum + pointBytes(String(value)), 0) };
  } finally {
    db.close();
  }
}
