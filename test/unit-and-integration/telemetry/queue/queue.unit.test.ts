import { copyFileSync, existsSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { systemClock } from '../../../../src/system/time/clock.ts';
import { QueueDatabase } from '../../../../src/telemetry/queue/database/queue-database.ts';
import { rigWithLateDisk, QueueRig, ampleBounds, drain, noStreams, point, points, values } from './queue-rig.ts';

const forever = new AbortController().signal;

test('what is delivered within the group window is never written', () => {
  using rig = new QueueRig();
  const before = readFileSync(`${rig.path}-wal`).byteLength;
  rig.queue.push(points(3));
  expect(drain(rig.queue).map(values)).toEqual([[0, 1, 2]]);
  rig.clock.advance(20_000);
  expect(rig.queue.msUntilDue()).toBe(Number.POSITIVE_INFINITY);
  expect(rig.queue.flush()).toBe(true);
  expect(readFileSync(`${rig.path}-wal`).byteLength).toBe(before);
});

// Regression: the second point went with the first, dated 1970.
test('points wait in order until the clock is set, also those with a known time', () => {
  using rig = new QueueRig({ isClockSet: false });
  const atMs = rig.clock.nowMs();
  const timed = { ...point(0), time: { kind: 'known', atMs } } as const;
  const untimed = { ...point(1), time: { kind: 'since-boot' } } as const;
  rig.queue.push([timed, untimed, { ...timed, value: 2 }]);
  expect(drain(rig.queue)).toEqual([]);
  rig.queue.flush();
  rig.queue.push([{ ...timed, value: 3 }]);
  expect(drain(rig.queue)).toEqual([]);
  rig.queue.learnClock(atMs - rig.sinceBootMs);
  expect(drain(rig.queue).map(values)).toEqual([[3], [0, 1, 2]]);
});

test.each([
  ['after ten seconds', (rig: QueueRig) => rig.clock.advance(10_000), 3],
  ['when 500 wait', () => {}, 500],
])('a group is due %s', (_name, wait, count) => {
  using rig = new QueueRig();
  rig.queue.push(points(2));
  expect(rig.queue.msUntilDue()).toBeGreaterThan(0);
  rig.queue.push(points(count - 2));
  wait(rig);
  expect(rig.queue.msUntilDue()).toBe(0);
});

test('an urgent point, and one that a caller waits for, is due immediately', async () => {
  using rig = new QueueRig({ clock: systemClock });
  rig.queue.push([point(1, 'alarm', 'urgent')]);
  expect(rig.queue.msUntilDue()).toBe(0);
  rig.queue.flush();
  const acknowledged = rig.queue.acknowledged(rig.queue.push([point(2)]), forever);
  expect(rig.queue.msUntilDue()).toBe(0);
  rig.queue.flush();
  expect(await acknowledged).toBe('disk');
  rig.crash();
  expect(drain(rig.queue).map(values)).toEqual([[1], [2]]);
});

test('a caller hears where its point is safe, even if no disk takes it', async () => {
  using rig = new QueueRig({ clock: systemClock });
  rig.failure = 'queue-full';
  const acknowledged = rig.queue.acknowledged(rig.queue.push([point(1)]), new AbortController().signal);
  expect(rig.queue.flush()).toBe(false);
  drain(rig.queue);
  expect(await acknowledged).toBe('service');
});

test('a caller hears after a while when its point is neither on disk nor delivered', async () => {
  using rig = new QueueRig();
  rig.failure = 'queue-full';
  rig.queue.flush();
  await expect(rig.queue.acknowledged(rig.queue.push([point(1)]), forever)).rejects.toThrow(
    expect.objectContaining({ code: 'point-not-durable' }),
  );
  expect(drain(rig.queue).map(values)).toEqual([[1]]);
});

test('times of an event are unique and rise, also over a restart', () => {
  using rig = new QueueRig();
  rig.queue.push(points(3));
  rig.restart();
  rig.queue.push(points(2));
  rig.queue.flush();
  const times = drain(rig.queue).flatMap((batch) => batch.points.map(({ atMs }) => atMs));
  const start = Date.UTC(2027, 0, 1);
  expect(times).toEqual([start, start + 1, start + 2, start + 3, start + 4]);
});

test('points from before the clock was set get their right time afterwards, whether they were written or not', () => {
  using rig = new QueueRig({ isClockSet: false });
  const unknown = (value: number) => ({ ...point(value), time: { kind: 'since-boot' } as const });
  const written = rig.sinceBootMs;
  rig.queue.push([unknown(1)]);
  rig.queue.flush();
  rig.clock.advance(5_000);
  rig.queue.push([unknown(2)]);
  expect(drain(rig.queue)).toEqual([]);
  const startedAtMs = Date.UTC(2027, 5, 1);
  rig.queue.learnClock(startedAtMs);
  const found = drain(rig.queue).flatMap((batch) => batch.points.map(({ atMs, text }) => [text, atMs - startedAtMs]));
  expect(new Map(found as [string, number][])).toEqual(
    new Map([
      ['1', written],
      ['2', written + 5_000],
    ]),
  );
});

// Regression: after a step of 50 minutes, all readings of the next 50 minutes got the same wrong time.
test.each([
  ['years', Date.UTC(2030, 0, 1)],
  ['50 minutes', Date.UTC(2027, 0, 1, 0, 50)],
])('does not keep an event in the future after a clock that was %s ahead is corrected', (_, wrong) => {
  using rig = new QueueRig();
  const right = Date.UTC(2027, 0, 1);
  const at = (atMs: number) => ({ ...point(1), time: { kind: 'known', atMs } as const });
  rig.queue.push([at(wrong)]);
  rig.queue.flush();
  rig.restart();
  rig.queue.push([at(right), at(right)]);
  const times = drain(rig.queue).flatMap((batch) => batch.points.map(({ atMs }) => atMs));
  expect(times.toSorted((a, b) => a - b)).toEqual([right, right + 1, wrong]);
});

test('a boot whose clock was never set is dated before the next one, in order, and counted', () => {
  using rig = new QueueRig({ isClockSet: false });
  const time = { kind: 'since-boot' } as const;
  rig.queue.push([
    { ...point(1), time },
    { ...point(2), time },
  ]);
  rig.queue.flush();
  rig.reboot();
  expect(drain(rig.queue)).toEqual([]);
  const startedAtMs = Date.UTC(2027, 5, 1);
  rig.queue.learnClock(startedAtMs);
  const [batch] = drain(rig.queue);
  expect(batch?.points.map(({ text }) => text)).toEqual(['1', '2']);
  const [first = 0, second = 0] = batch?.points.map(({ atMs }) => atMs) ?? [];
  expect(first).toBeLessThan(second);
  expect(second).toBeLessThan(startedAtMs);
  expect(startedAtMs - second).toBeLessThan(10_000);
  expect(rig.queue.figures().bootsWithEstimatedTime).toBe(1);
});

test('boots whose points have all gone are forgotten', () => {
  using rig = new QueueRig();
  for (let boot = 0; boot < 5; boot += 1) {
    rig.reboot();
    rig.queue.push([{ ...point(boot), time: { kind: 'since-boot' } as const }]);
    rig.queue.flush();
  }
  const known = (): number => {
    const copy = join(rig.directory, 'copy.db');
    for (const suffix of ['', '-wal']) copyFileSync(`${rig.path}${suffix}`, `${copy}${suffix}`);
    using db = QueueDatabase.open(copy);
    return db.boots().length;
  };
  expect(known()).toBe(5);
  rig.queue.learnClock(Date.UTC(2027, 5, 1));
  expect(drain(rig.queue).flatMap(values)).toEqual([0, 1, 2, 3, 4]);
  rig.queue.flush();
  expect(known()).toBe(1);
});

test('the oldest of the lowest class goes first, and is counted', () => {
  using rig = new QueueRig({ bounds: { ...ampleBounds, maxBytes: 18 * 35 } });
  for (const name of ['bulk', 'normal', 'urgent'] as const) rig.queue.push(points(10, name, name));
  rig.queue.flush();
  const left = drain(rig.queue).map((batch) => [batch.stream.name, values(batch).length]);
  expect(left[0]).toEqual(['urgent', 10]);
  expect(left[1]?.[0]).toBe('normal');
  expect(left.some(([event]) => event === 'bulk')).toBe(false);
  const { dropped } = rig.queue.figures();
  const kept = left.reduce((sum, [, count]) => sum + Number(count), 0);
  expect(dropped['queue-full']).toBe(30 - kept);
});

test('a point that waits longer than its class allows is dropped, and counted', () => {
  using rig = new QueueRig({ bounds: { ...ampleBounds, bulk: { maxBytes: 2 ** 30, maxAgeMs: 60_000 } } });
  rig.queue.push([point(1, 'b', 'bulk'), point(2, 'n')]);
  rig.queue.flush();
  rig.clock.advance(61_000);
  rig.queue.push([point(3, 'b', 'bulk')]);
  rig.queue.flush();
  expect(drain(rig.queue).flatMap(values)).toEqual([2, 3]);
  expect(rig.queue.figures().dropped['too-old']).toBe(1);
});

test('a full disk: memory takes over, up to its bound; then the disk again', () => {
  using rig = new QueueRig({ memoryPoints: 100 });
  rig.queue.push(points(50));
  rig.failure = 'queue-full';
  expect(rig.queue.flush()).toBe(false);
  rig.queue.push(points(80, 'later'));
  expect(rig.queue.figures()).toMatchObject({ pointsInMemory: 100 });
  expect(rig.queue.figures().error).toContain('fails');
  expect(rig.queue.figures().dropped['memory-full']).toBe(30);
  rig.failure = undefined;
  rig.clock.advance(31_000);
  expect(rig.queue.flush()).toBe(true);
  expect(rig.queue.figures()).toMatchObject({ pointsInMemory: 0, pointsOnDisk: 100, error: undefined });
});

// Regression: "the queue cannot be written: the disk is full" in the status, long after there was room again.
test('a disk that has space again is no longer a problem, also with nothing left to write', async () => {
  using rig = new QueueRig();
  rig.queue.push(points(3));
  rig.failure = 'queue-full';
  expect(rig.queue.flush()).toBe(false);
  expect(drain(rig.queue).flatMap(values)).toEqual([0, 1, 2]);
  expect(rig.queue.figures().error).toContain('fails');
  rig.failure = undefined;
  rig.clock.advance(31_000);
  const ending = new AbortController();
  const run = rig.queue.run(ending.signal);
  expect(rig.queue.figures()).toMatchObject({ pointsInMemory: 0, error: undefined });
  ending.abort();
  await run.catch(() => {});
});

test('a disk that comes back later than the agent still has what it had', () => {
  using rig = new QueueRig();
  rig.queue.push(points(3));
  rig.queue[Symbol.dispose]();
  const { late: made, arrive } = rigWithLateDisk(rig.path);
  using late = made;
  late.queue.push(points(2, 'new'));
  const held = late.queue.take('live', 1, noStreams);
  arrive();
  expect(late.queue.flush()).toBe(true);
  if (held === undefined) throw new Error('there is a batch');
  late.queue.accepted(held, held.points.length);
  late.queue.release(held);
  expect(drain(late.queue).map((batch) => [batch.stream.name, values(batch)])).toEqual([
    ['e', [0, 1, 2]],
    ['new', [1]],
  ]);
});

// Regression: the backlog slept until the next datapoint came, and a stored one of the same event waited.
test('wakes the backlog when a live batch ends whose event has stored datapoints', async () => {
  using rig = new QueueRig();
  rig.queue.push(points(1));
  const live = rig.queue.take('live', 1, noStreams);
  rig.queue.push(points(1));
  rig.queue.flush();
  if (live === undefined) throw new Error('there is a batch');
  const { backlog } = rig.queue.arrival;
  await backlog.wait(1, rig.clock, forever);
  expect(rig.queue.take('backlog', 10, noStreams)).toBeUndefined();
  rig.queue.accepted(live, 1);
  rig.queue.release(live);
  await backlog.wait(1, rig.clock, forever);
  expect(rig.clock.slept).toEqual([]);
  expect(rig.queue.take('backlog', 10, noStreams)?.points).toHaveLength(1);
});

test('has no timer while the queue is empty', async () => {
  using rig = new QueueRig();
  const ending = new AbortController();
  const run = rig.queue.run(ending.signal);
  rig.queue.push(points(1));
  drain(rig.queue);
  await new Promise(setImmediate);
  ending.abort();
  await run.catch(() => {});
  expect(rig.clock.slept).toEqual([]);
});

test('a refused point is kept as a dead letter, with the reason, up to a bound', () => {
  using rig = new QueueRig({ maxDeadLetters: 2 });
  rig.queue.push(points(4));
  const batch = rig.queue.take('live', 10, noStreams);
  if (batch === undefined) throw new Error('there is a batch');
  for (const refused of batch.points.slice(0, 3)) rig.queue.refused(batch, `not ${refused.text}`);
  rig.queue.release(batch);
  rig.queue.flush();
  expect(rig.queue.deadLetters(10).map(({ text, reason }) => [text, reason])).toEqual([
    ['2', 'not 2'],
    ['1', 'not 1'],
  ]);
  expect(drain(rig.queue).flatMap(values)).toEqual([3]);
});

test('live points go while a backlog waits, and both keep their order', () => {
  using rig = new QueueRig();
  rig.queue.push(points(3));
  rig.queue.flush();
  rig.queue.push([point(10), point(11)]);
  const [live, backlog] = [rig.queue.take('live', 10, noStreams), rig.queue.take('backlog', 2, noStreams)];
  expect([live, backlog].map((batch) => values(batch ?? { points: [] }))).toEqual([
    [10, 11],
    [0, 1],
  ]);
});

test('an event that has to wait does not hold up the others', () => {
  using rig = new QueueRig();
  rig.queue.push([...points(3, 'parked'), ...points(2, 'free')]);
  rig.queue.flush();
  const first = rig.queue.take('backlog', 10, noStreams);
  if (first === undefined) throw new Error('there is a batch');
  rig.queue.release(first);
  expect(first.stream.name).toBe('parked');
  expect(rig.queue.take('backlog', 10, new Set([first.stream]))?.stream.name).toBe('free');
});

test.each([
  ['is empty', (path: string) => truncateSync(path, 0)],
  ['is no database', (path: string) => writeFileSync(path, 'x'.repeat(8192))],
  ['is cut in the middle', (path: string) => truncateSync(path, 20 * 4096)],
  ['has lost its write-ahead log', (path: string) => rmSync(`${path}-wal`, { force: true })],
])('a queue file that %s does not stop anything, and is replaced', (_name, damage) => {
  using rig = new QueueRig();
  rig.queue.push(points(5_000));
  rig.restart();
  rig.queue.push(points(10));
  rig.queue.flush();
  rig.crash(damage);
  drain(rig.queue);
  rig.queue.push([point('after')]);
  rig.queue.flush();
  rig.crash();
  expect(drain(rig.queue).flatMap(values)).toEqual(['after']);
});

test('of a damaged file everything that can be read is saved, and the rest is counted', () => {
  using rig = new QueueRig();
  rig.queue.push(points(5_000));
  rig.restart();
  rig.crash((path) => {
    const bytes = readFileSync(path);
    bytes.fill(0xa5, 20 * 4096, 21 * 4096);
    writeFileSync(path, bytes);
  });
  const delivered = new Set(drain(rig.queue).flatMap(values));
  const { dropped } = rig.queue.figures();
  expect(delivered.size).toBeGreaterThan(4_500);
  expect(dropped.damaged).toBe(5_000 - delivered.size);
  expect(existsSync(`${rig.path}.damaged`)).toBe(true);
});

test('flash wear is reported per day, and limited: groups grow instead', () => {
  let written = 0;
  using rig = new QueueRig({
    readWritten: () => (written += 50_000),
    flashBytesPerDay: 100_000,
    memoryPoints: 1_000,
  });
  for (let round = 0; round < 3; round += 1) {
    rig.queue.push(points(500));
    rig.queue.flush();
  }
  expect(rig.queue.figures().flashBytesPerDay).toBe(24 * 150_000);
  rig.queue.push(points(700));
  rig.clock.advance(60_000);
  expect(rig.queue.msUntilDue()).toBeGreaterThan(0);
  rig.queue.push(points(200));
  expect(rig.queue.msUntilDue()).toBe(0);
});

test.each([undefined, Number.NaN, 1n, 'x'.repeat(70_000), () => 1])(
  'a value that cannot be sent is refused',
  (value) => {
    using rig = new QueueRig();
    expect(() => rig.queue.push([point(1), point(value)])).toThrow(expect.objectContaining({ code: 'value-invalid' }));
    expect(rig.waiting).toBe(0);
  },
);

test('a point in delivery from memory is not sent from the disk, too, although it was written in between', () => {
  using rig = new QueueRig();
  rig.queue.push(points(3));
  const live = rig.queue.take('live', 10, noStreams);
  rig.queue.flush();
  expect(rig.queue.take('backlog', 10, noStreams)).toBeUndefined();
  if (live !== undefined) rig.queue.release(live);
  expect(values(rig.queue.take('backlog', 10, noStreams) ?? { points: [] })).toEqual([0, 1, 2]);
});
