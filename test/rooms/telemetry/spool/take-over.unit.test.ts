import { copyFileSync, existsSync, writeFileSync } from 'node:fs';

import { expect, test } from 'vitest';

import { silentLog } from '../../../../src/system/log/log.ts';
import { takeOver } from '../../../../src/telemetry/spool/take-over.ts';
import { SpoolRig, drain, noEvents, point, points, values } from './spool-rig.ts';

/** As `systemd/own-folders` leaves it beside the spool. */
function handOver(from: SpoolRig, to: SpoolRig): string {
  from.spool.flush();
  const other = `${to.path}.other`;
  for (const suffix of ['', '-wal']) copyFileSync(`${from.path}${suffix}`, `${other}${suffix}`);
  return other;
}

test('the points of a second spool join those of the first, with their events, classes and times, and it is gone', () => {
  using first = new SpoolRig();
  using second = new SpoolRig();
  first.spool.push([point('mine')]);
  second.spool.push([...points(600, 'many'), point('now', 'alarm', 'urgent')]);
  const expected = second.spool.takeLive(1, noEvents)?.points[0]?.atMs;
  const other = handOver(second, first);
  takeOver(other, first.spool, silentLog);
  expect(existsSync(other) || existsSync(`${other}-wal`)).toBe(false);
  const batches = drain(first.spool);
  expect(batches.filter(({ event }) => event === 'many').flatMap(values)).toEqual(
    points(600).map(({ value }) => value),
  );
  const rest = batches.filter(({ event }) => event !== 'many').flatMap(values);
  expect(new Set(rest)).toEqual(new Set(['mine', 'now']));
  expect(batches.find(({ event }) => event === 'alarm')?.points[0]?.atMs).toBe(expected);
  takeOver(other, first.spool, silentLog);
  expect(drain(first.spool)).toEqual([]);
});

test('what was measured before its clock was set gets the time that this boot shows', () => {
  using first = new SpoolRig();
  using second = new SpoolRig();
  second.spool.push([{ ...point(1), time: { kind: 'since-boot' } }]);
  takeOver(handOver(second, first), first.spool, silentLog);
  expect(drain(first.spool)).toEqual([]);
  first.spool.learnClock(first.clock.nowMs() - first.sinceBootMs);
  expect(drain(first.spool).map(values)).toEqual([[1]]);
});

test('a second spool stays while the disk takes nothing, and where it is none', () => {
  using first = new SpoolRig();
  using second = new SpoolRig();
  second.spool.push(points(3));
  const other = handOver(second, first);
  first.failure = 'spool-full';
  takeOver(other, first.spool, silentLog);
  expect(existsSync(other)).toBe(true);
  first.failure = undefined;
  writeFileSync(other, 'no spool');
  takeOver(other, first.spool, silentLog);
  expect(existsSync(other)).toBe(true);
});
