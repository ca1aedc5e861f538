import { copyFileSync, existsSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { systemClock } from '../../../../src/system/time/clock.ts';
import { SpoolDatabase } from '../../../../src/telemetry/queue/database/spool-database.ts';
import { FlashWear } from '../../../../src/telemetry/queue/flash-wear.ts';
import { rigWithLateDisk, SpoolRig, ampleBounds, drain, noEvents, point, points, values } from './spool-rig.ts';

const forever = new AbortController().signal;

test('what is delivered within the group window is never written', () => {
  using rig = new SpoolRig();
  const before = readFileSync(`${rig.path}-wal`).byteLength;
  rig.spool.push(points(3));
  expect(drain(rig.spool).map(values)).toEqual([[0, 1, 2]]);
  rig.clock.advance(20_000);
  expect(rig.spool.msUntilDue()).toBe(Number.POSITIVE_INFINITY);
  expect(rig.spool.flush()).toBe(true);
  expect(readFileSync(`${rig.path}-wal`).byteLength).toBe(before);
});

// Regression: the second point went with the first, dated 1970.
test('a point with an unknown time waits in order, behind one with a known time', () => {
  using rig = new SpoolRig();
  const atMs = rig.clock.nowMs();
  const timed = { ...point(0), time: { kind: 'known', atMs } } as const;
  const untimed = { ...point(1), time: { kind: 'since-boot' } } as const;
  rig.spool.push([timed, untimed, { ...timed, value: 2 }]);
  expect(drain(rig.spool).map(values)).toEqual([[0]]);
  rig.spool.learnClock(atMs - rig.sinceBootMs);
  expect(drain(rig.spool).map(values)).toEqual([[1, 2]]);
});

test.each([
  ['after ten seconds', (rig: SpoolRig) => rig.clock.advance(10_000), 3],
  ['when 500 wait', () => {}, 500],
])('a group is due %s', (_name, wait, count) => {
  using rig = new SpoolRig();
  rig.spool.push(points(2));
  expect(rig.spool.msUntilDue()).toBeGreaterThan(0);
  rig.spool.push(points(count - 2));
  wait(rig);
  expect(rig.spool.msUntilDue()).toBe(0);
});

test('an urgent point, and one that a caller waits for, is due immediately', async () => {
  using rig = new SpoolRig({ clock: systemClock });
  rig.spool.push([point(1, 'alarm', 'urgent')]);
  expect(rig.spool.msUntilDue()).toBe(0);
  rig.spool.flush();
  const acknowledged = rig.spool.pushDurably([point(2)], forever);
  expect(rig.spool.msUntilDue()).toBe(0);
  rig.spool.flush();
  expect(await acknowledged).toBe('disk');
  rig.crash();
  expect(drain(rig.spool).map(values)).toEqual([[1], [2]]);
});

test('a caller hears where its point is safe, even if no disk takes it', async () => {
  using rig = new SpoolRig({ clock: systemClock });
  rig.failure = 'queue-full';
  const acknowledged = rig.spool.pushDurably([point(1)], new AbortController().signal);
  expect(rig.spool.flush()).toBe(false);
  drain(rig.spool);
  expect(await acknowledged).toBe('service');
});

test('a caller hears after a while when its point is neither on disk nor delivered', async () => {
  using rig = new SpoolRig();
  rig.failure = 'queue-full';
  rig.spool.flush();
  await expect(rig.spool.pushDurably([point(1)], forever)).rejects.toThrow(
    expect.objectContaining({ code: 'point-not-durable' }),
  );
  expect(drain(rig.spool).map(values)).toEqual([[1]]);
});

test('times of an event are unique and rise, also over a restart', () => {
  using rig = new SpoolRig();
  rig.spool.push(points(3));
  rig.restart();
  rig.spool.push(points(2));
  rig.spool.flush();
  const times = drain(rig.spool).flatMap((batch) => batch.points.map(({ atMs }) => atMs));
  const start = Date.UTC(2027, 0, 1);
  expect(times).toEqual([start, start + 1, start + 2, start + 3, start + 4]);
});

test('points from before the clock was set get their right time afterwards, whether they were written or not', () => {
  using rig = new SpoolRig();
  const unknown = (value: number) => ({ ...point(value), time: { kind: 'since-boot' } as const });
  const written = rig.sinceBootMs;
  rig.spool.push([unknown(1)]);
  rig.spool.flush();
  rig.clock.advance(5_000);
  rig.spool.push([unknown(2)]);
  expect(drain(rig.spool)).toEqual([]);
  const startedAtMs = Date.UTC(2027, 5, 1);
  rig.spool.learnClock(startedAtMs);
  const found = drain(rig.spool).flatMap((batch) => batch.points.map(({ atMs, text }) => [text, atMs - startedAtMs]));
  expect(new Map(found as [string, number][])).toEqual(
    new Map([
      ['1', written],
      ['2', written + 5_000],
    ]),
  );
});

test('a clock that was years ahead and was put right does not keep an event in the future', () => {
  using rig = new SpoolRig();
  const right = Date.UTC(2027, 0, 1);
  const at = (atMs: number) => ({ ...point(1), time: { kind: 'known', atMs } as const });
  rig.spool.push([at(Date.UTC(2030, 0, 1))]);
  rig.spool.flush();
  rig.restart();
  rig.spool.push([at(right), at(right)]);
  const times = drain(rig.spool).flatMap((batch) => batch.points.map(({ atMs }) => atMs));
  expect(times.toSorted((a, b) => a - b)).toEqual([right, right + 1, Date.UTC(2030, 0, 1)]);
});

test('a boot whose clock was never set is dated before the next one, in order, and counted', () => {
  using rig = new SpoolRig();
  const time = { kind: 'since-boot' } as const;
  rig.spool.push([
    { ...point(1), time },
    { ...point(2), time },
  ]);
  rig.spool.flush();
  rig.reboot();
  expect(drain(rig.spool)).toEqual([]);
  const startedAtMs = Date.UTC(2027, 5, 1);
  rig.spool.learnClock(startedAtMs);
  const [batch] = drain(rig.spool);
  expect(batch?.points.map(({ text }) => text)).toEqual(['1', '2']);
  const [first = 0, second = 0] = batch?.points.map(({ atMs }) => atMs) ?? [];
  expect(first).toBeLessThan(second);
  expect(second).toBeLessThan(startedAtMs);
  expect(startedAtMs - second).toBeLessThan(10_000);
  expect(rig.spool.figures().bootsWithEstimatedTime).toBe(1);
});

test('boots whose points have all gone are forgotten', () => {
  using rig = new SpoolRig();
  for (let boot = 0; boot < 5; boot += 1) {
    rig.reboot();
    rig.spool.push([{ ...point(boot), time: { kind: 'since-boot' } as const }]);
    rig.spool.flush();
  }
  const known = (): number => {
    const copy = join(rig.directory, 'copy.db');
    for (const suffix of ['', '-wal']) copyFileSync(`${rig.path}${suffix}`, `${copy}${suffix}`);
    using db = SpoolDatabase.open(copy);
    return db.boots().length;
  };
  expect(known()).toBe(5);
  rig.spool.learnClock(Date.UTC(2027, 5, 1));
  expect(drain(rig.spool).flatMap(values)).toEqual([0, 1, 2, 3, 4]);
  rig.spool.flush();
  expect(known()).toBe(1);
});

test('the oldest of the lowest class goes first, and is counted', () => {
  using rig = new SpoolRig({ bounds: { ...ampleBounds, maxBytes: 18 * 35 } });
  for (const name of ['bulk', 'normal', 'urgent'] as const) rig.spool.push(points(10, name, name));
  rig.spool.flush();
  const left = drain(rig.spool).map((batch) => [batch.event, values(batch).length]);
  expect(left[0]).toEqual(['urgent', 10]);
  expect(left[1]?.[0]).toBe('normal');
  expect(left.some(([event]) => event === 'bulk')).toBe(false);
  const { dropped } = rig.spool.figures();
  const kept = left.reduce((sum, [, count]) => sum + Number(count), 0);
  expect(dropped['queue-full']).toBe(30 - kept);
});

test('a point that waits longer than its class allows is dropped, and counted', () => {
  using rig = new SpoolRig({ bounds: { ...ampleBounds, bulk: { maxBytes: 2 ** 30, maxAgeMs: 60_000 } } });
  rig.spool.push([point(1, 'b', 'bulk'), point(2, 'n')]);
  rig.spool.flush();
  rig.clock.advance(61_000);
  rig.spool.push([point(3, 'b', 'bulk')]);
  rig.spool.flush();
  expect(drain(rig.spool).flatMap(values)).toEqual([2, 3]);
  expect(rig.spool.figures().dropped['too-old']).toBe(1);
});

test('a full disk: memory takes over, up to its bound; then the disk again', () => {
  using rig = new SpoolRig({ maxMemoryPoints: 100 });
  rig.spool.push(points(50));
  rig.failure = 'queue-full';
  expect(rig.spool.flush()).toBe(false);
  rig.spool.push(points(80, 'later'));
  expect(rig.spool.figures()).toMatchObject({ pointsInMemory: 100 });
  expect(rig.spool.figures().error).toContain('fails');
  expect(rig.spool.figures().dropped['memory-full']).toBe(30);
  rig.failure = undefined;
  rig.clock.advance(31_000);
  expect(rig.spool.flush()).toBe(true);
  expect(rig.spool.figures()).toMatchObject({ pointsInMemory: 0, pointsOnDisk: 100, error: undefined });
});

// Regression: "the spool cannot be written: the disk is full" in the status, long after there was room again.
test('a disk that has space again is no longer a problem, also with nothing left to write', async () => {
  using rig = new SpoolRig();
  rig.spool.push(points(3));
  rig.failure = 'queue-full';
  expect(rig.spool.flush()).toBe(false);
  expect(drain(rig.spool).flatMap(values)).toEqual([0, 1, 2]);
  expect(rig.spool.figures().error).toContain('fails');
  rig.failure = undefined;
  rig.clock.advance(31_000);
  const ending = new AbortController();
  const run = rig.spool.run(ending.signal);
  expect(rig.spool.figures()).toMatchObject({ pointsInMemory: 0, error: undefined });
  ending.abort();
  await run.catch(() => {});
});

test('a disk that comes back later than the agent still has what it had', () => {
  using rig = new SpoolRig();
  rig.spool.push(points(3));
  rig.spool[Symbol.dispose]();
  const { late: made, arrive } = rigWithLateDisk(rig.path);
  using late = made;
  late.spool.push(points(2, 'new'));
  const held = late.spool.takeLive(1, noEvents);
  arrive();
  expect(late.spool.flush()).toBe(true);
  if (held === undefined) throw new Error('there is a batch');
  late.spool.accepted(held, held.points.length);
  late.spool.release(held);
  expect(drain(late.spool).map((batch) => [batch.event, values(batch)])).toEqual([
    ['e', [0, 1, 2]],
    ['new', [1]],
  ]);
});

test('of a property only the last value waits, over a crash too', () => {
  using rig = new SpoolRig();
  rig.spool.setProperty('p', 1);
  rig.spool.setProperty('p', { two: 2 });
  rig.spool.flush();
  rig.crash();
  const taken = rig.spool.takeProperty(noEvents);
  expect(taken).toMatchObject({ id: 'p', text: '{"two":2}' });
  rig.spool.setProperty('p', 3);
  if (taken !== undefined) rig.spool.settleProperty(taken);
  const newer = rig.spool.takeProperty(noEvents);
  expect(newer).toMatchObject({ id: 'p', text: '3' });
  if (newer !== undefined) rig.spool.settleProperty(newer);
  rig.spool.flush();
  rig.crash();
  expect(rig.spool.takeProperty(noEvents)).toBeUndefined();
});

test('a refused point is kept as a dead letter, with the reason, up to a bound', () => {
  using rig = new SpoolRig({ maxDeadLetters: 2 });
  rig.spool.push(points(4));
  const batch = rig.spool.takeLive(10, noEvents);
  if (batch === undefined) throw new Error('there is a batch');
  for (const refused of batch.points.slice(0, 3)) rig.spool.refused(batch, `not ${refused.text}`);
  rig.spool.release(batch);
  rig.spool.flush();
  expect(rig.spool.deadLetters(10).map(({ text, reason }) => [text, reason])).toEqual([
    ['2', 'not 2'],
    ['1', 'not 1'],
  ]);
  expect(drain(rig.spool).flatMap(values)).toEqual([3]);
});

test('live points go while a backlog waits, and both keep their order', () => {
  using rig = new SpoolRig();
  rig.spool.push(points(3));
  rig.spool.flush();
  rig.spool.push([point(10), point(11)]);
  const [live, backlog] = [rig.spool.takeLive(10, noEvents), rig.spool.takeBacklog(2, noEvents)];
  expect([live, backlog].map((batch) => values(batch ?? { points: [] }))).toEqual([
    [10, 11],
    [0, 1],
  ]);
});

test('an event that has to wait does not hold up the others', () => {
  using rig = new SpoolRig();
  rig.spool.push([...points(3, 'parked'), ...points(2, 'free')]);
  rig.spool.flush();
  const batch = rig.spool.takeBacklog(10, new Set(['parked']));
  expect(batch?.event).toBe('free');
});

test.each([
  ['is empty', (path: string) => truncateSync(path, 0)],
  ['is no database', (path: string) => writeFileSync(path, 'x'.repeat(8192))],
  ['is cut in the middle', (path: string) => truncateSync(path, 20 * 4096)],
  ['has lost its write-ahead log', (path: string) => rmSync(`${path}-wal`, { force: true })],
])('a spool file that %s does not stop anything, and is replaced', (_name, damage) => {
  using rig = new SpoolRig();
  rig.spool.push(points(5_000));
  rig.restart();
  rig.spool.push(points(10));
  rig.spool.flush();
  rig.crash(damage);
  drain(rig.spool);
  rig.spool.push([point('after')]);
  rig.spool.flush();
  rig.crash();
  expect(drain(rig.spool).flatMap(values)).toEqual(['after']);
});

test('of a damaged file everything that can be read is saved, and the rest is counted', () => {
  using rig = new SpoolRig();
  rig.spool.push(points(5_000));
  rig.restart();
  rig.crash((path) => {
    const bytes = readFileSync(path);
    bytes.fill(0xa5, 20 * 4096, 21 * 4096);
    writeFileSync(path, bytes);
  });
  const delivered = new Set(drain(rig.spool).flatMap(values));
  const { dropped } = rig.spool.figures();
  expect(delivered.size).toBeGreaterThan(4_500);
  expect(dropped.damaged).toBe(5_000 - delivered.size);
  expect(existsSync(`${rig.path}.damaged`)).toBe(true);
});

test('flash wear is reported per day, and limited: groups grow instead', () => {
  let written = 0;
  using rig = new SpoolRig({
    flash: new FlashWear(() => (written += 50_000)),
    maxFlashBytesPerDay: 100_000,
    maxMemoryPoints: 1_000,
  });
  for (let round = 0; round < 3; round += 1) {
    rig.spool.push(points(500));
    rig.spool.flush();
  }
  expect(rig.spool.figures().flashBytesPerDay).toBe(24 * 150_000);
  rig.spool.push(points(700));
  rig.clock.advance(60_000);
  expect(rig.spool.msUntilDue()).toBeGreaterThan(0);
  rig.spool.push(points(200));
  expect(rig.spool.msUntilDue()).toBe(0);
});

test.each([undefined, Number.NaN, { a: [Infinity] }, 1n, 'x'.repeat(70_000), () => 1])(
  'a value that cannot be sent is refused',
  (value) => {
    using rig = new SpoolRig();
    expect(() => rig.spool.push([point(1), point(value)])).toThrow(expect.objectContaining({ code: 'value-invalid' }));
    expect(rig.spool.waiting).toBe(0);
  },
);

test('a point in delivery from memory is not sent from the disk, too, although it was written in between', () => {
  using rig = new SpoolRig();
  rig.spool.push(points(3));
  const live = rig.spool.takeLive(10, noEvents);
  rig.spool.flush();
  expect(rig.spool.takeBacklog(10, noEvents)).toBeUndefined();
  if (live !== undefined) rig.spool.release(live);
  expect(values(rig.spool.takeBacklog(10, noEvents) ?? { points: [] })).toEqual([0, 1, 2]);
});

test('invented names replace no event of the configuration, also after a start', () => {
  using rig = new SpoolRig({ configuredEvents: new Set(['temperature']), maxMemoryPoints: 20_000 });
  rig.spool.push(Array.from({ length: 10_000 }, (_, index) => point(index, `made-up-${index}`)));
  for (const start of [() => {}, () => rig.crash()]) {
    rig.spool.flush();
    start();
    expect(() => rig.spool.push([point(1, 'another')])).toThrow(/no more than 10000 events/);
    rig.spool.push([point(1, 'temperature'), point(2, 'temperature', 'urgent'), point(3, 'made-up-7')]);
  }
});
