import { expect, test } from 'vitest';

import { noStreams, point, points, QueueRig, takeProperty } from './queue-rig.ts';

// Regression: `run` wrote again and again without a pause.
test('a write that a delivery has made is no longer due', () => {
  using rig = new QueueRig();
  rig.queue.push(points(3));
  rig.queue.flush();
  for (const accepted of [1, 0, 0]) {
    const batch = rig.queue.take('backlog', 1, noStreams);
    if (batch === undefined) throw new Error('there is a batch');
    if (accepted > 0) rig.queue.accepted(batch, accepted);
    rig.queue.release(batch);
  }
  rig.clock.advance(3_600_000);
  rig.queue.flush();
  expect(rig.queue.msUntilDue()).toBeGreaterThan(0);
});

const HALF_DAY_MS = 43_200_000;
const never = new AbortController().signal;

/** A queue whose writes take 50 kB each of 100 kB a day, after two of them. */
function spentRig(): { readonly rig: QueueRig; readonly writes: () => number } {
  let reads = 0;
  const readWritten = (): number => (reads += 1) * 50_000;
  const rig = new QueueRig({ readWritten, flashBytesPerDay: 100_000, memoryPoints: 1_000 });
  rig.queue.setProperty('mode', 'a');
  rig.queue.flush();
  rig.queue.push(points(1));
  rig.queue.flush();
  return { rig, writes: () => reads / 2 };
}

// Regression: a program that called the API in a loop, or an urgent datapoint, wrote to the medium each time.
test('writes urgent datapoints at the rate of the limit of a day, once it is used up', () => {
  const { rig } = spentRig();
  using _ = rig;
  for (let write = 0; write < 3; write += 1) {
    rig.queue.push(points(1, 'e', 'urgent'));
    expect(rig.queue.msUntilDue()).toBe(HALF_DAY_MS);
    rig.clock.advance(HALF_DAY_MS - 1);
    expect(rig.queue.msUntilDue()).toBe(1);
    rig.clock.advance(1);
    rig.queue.push(points(1, 'e', 'urgent'));
    expect(rig.queue.msUntilDue()).toBe(0);
    rig.queue.flush();
  }
});

test('tells a program that waits when the next write is', async () => {
  const { rig, writes } = spentRig();
  using _ = rig;
  const wait = rig.queue.acknowledged(rig.queue.push(points(1), 'program'), never);
  await expect(wait).rejects.toThrow('flash_bytes_per_day is used up: the next write is in 43190 s');
  expect(rig.queue.msUntilDue()).toBe(HALF_DAY_MS - 10_000);
  expect(writes()).toBe(2);
});

test('refuses a program that would fill more than half of the memory, and accepts a source', () => {
  const { rig, writes } = spentRig();
  using _ = rig;
  rig.queue.push(points(500), 'program');
  const big = [point('x'.repeat(60_000))];
  for (const more of [points(1), big]) {
    expect(() => rig.queue.push(more, 'program')).toThrow('would be full, and flash_bytes_per_day is used up');
  }
  rig.queue.push(points(200));
  expect(rig.queue.msUntilDue()).toBeGreaterThan(0);
  expect(writes()).toBe(2);
  rig.clock.advance(HALF_DAY_MS);
  rig.queue.push(points(1), 'program');
  expect(rig.queue.figures()).toMatchObject({ pointsInMemory: 701 });
});

test('lets a property wait behind an older value on disk without a write', () => {
  const { rig, writes } = spentRig();
  using _ = rig;
  for (const value of ['b', 'c', 'd']) {
    rig.queue.setProperty('mode', value);
    expect(rig.queue.take('property', 1, noStreams)).toBeUndefined();
  }
  expect(writes()).toBe(2);
  expect(rig.queue.msUntilDue()).toBe(HALF_DAY_MS);
  rig.clock.advance(HALF_DAY_MS);
  rig.queue.flush();
  expect(takeProperty(rig)).toEqual(['mode', '"d"']);
});
