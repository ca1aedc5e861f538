import { expect, test } from 'vitest';

import { drain, point, QueueRig, values } from './queue-rig.ts';

test('invented names refuse no event of the configuration, also after a start', () => {
  using rig = new QueueRig({ configuredEvents: new Set(['temperature']), memoryPoints: 20_000 });
  rig.queue.push(Array.from({ length: 10_000 }, (_, index) => point(index, `made-up-${index}`)));
  for (const start of [() => {}, () => rig.crash()]) {
    rig.queue.flush();
    start();
    expect(() => rig.queue.push([point(1, 'another')])).toThrow(/too many of 10000 events/);
    rig.queue.push([point(1, 'temperature'), point(2, 'temperature', 'urgent'), point(3, 'made-up-7')]);
  }
});

// Regression: the names of delivered datapoints refused every new event for good.
test('a new event replaces the least recently used event without datapoints', () => {
  using rig = new QueueRig({ maxEvents: 3 });
  for (const start of [() => {}, () => rig.restart()]) {
    rig.queue.push([point(1, 'a'), point(2, 'b'), point(3, 'c')]);
    drain(rig.queue);
    start();
    rig.queue.push([point(4, 'a')]);
    rig.queue.push([point(5, 'd'), point(6, 'e')]);
    expect(() => rig.queue.push([point(7, 'b')])).toThrow(/too many of 3 events/);
    expect(drain(rig.queue).flatMap(values)).toEqual([4, 5, 6]);
  }
});

// Regression: a member could send enough names to make the queue forget, and then refuse, the events of others.
test('names that wait leave room for the events that were used last', () => {
  using rig = new QueueRig({ maxEvents: 20 });
  rig.queue.push([point(1, 'forgotten'), point(1, 'door'), point(1, 'level')]);
  drain(rig.queue);
  const invent = (): void => {
    for (let index = 0; index < 20; index += 1) rig.queue.push([point(index, `made-up-${index}`)]);
  };
  expect(invent).toThrow(/too many of 20 events/);
  rig.queue.push([point(2, 'door'), point(2, 'level')]);
  expect(() => rig.queue.push([point(2, 'forgotten')])).toThrow(/too many of 20 events/);
});

test('the times of a forgotten event continue', () => {
  using rig = new QueueRig({ maxEvents: 1 });
  const batches = ['a', 'b', 'a'].flatMap((event) => {
    rig.queue.push([point(1, event)]);
    return drain(rig.queue);
  });
  const [first, , again] = batches.map((batch) => batch.points[0]?.atMs ?? Number.NaN);
  expect(again).toBeGreaterThan(first ?? Number.NaN);
});

test('a refused batch leaves no names, whatever is wrong with it', () => {
  using rig = new QueueRig({ maxEvents: 3 });
  rig.queue.push([point(1, 'a')]);
  const wrong = [
    [point(1, 'b'), point(1, 'c'), point(undefined, 'd')],
    [point(1, 'b'), point(1, 'c'), point(1, 'd')],
  ];
  for (const batch of wrong) expect(() => rig.queue.push(batch)).toThrow(/./);
  rig.queue.push([point(2, 'e'), point(3, 'f')]);
  expect(drain(rig.queue).flatMap(values)).toEqual([1, 2, 3]);
});
