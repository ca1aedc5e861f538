import { expect, test } from 'vitest';

import { takeProperty, QueueRig } from './queue-rig.ts';

test('of a property only the last value waits, over a crash too', () => {
  using rig = new QueueRig();
  rig.queue.setProperty('p', 1);
  rig.queue.setProperty('p', { two: 2 });
  rig.queue.flush();
  rig.crash();
  expect(rig.queue.figures()).toMatchObject({ properties: 1, pointsOnDisk: 0 });
  expect(takeProperty(rig, () => rig.queue.setProperty('p', 3))).toEqual(['p', '{"two":2}']);
  expect(takeProperty(rig)).toEqual(['p', '3']);
  rig.queue.flush();
  rig.crash();
  expect(takeProperty(rig)).toBeUndefined();
  expect(rig.queue.figures()).toMatchObject({ properties: 0 });
});

test.each([
  ['is only in memory', () => {}],
  ['was written while the old one was on its way', (rig: QueueRig) => rig.queue.flush()],
])('keeps a newer value of a property that %s', (_name, write) => {
  using rig = new QueueRig();
  rig.queue.setProperty('p', 1);
  rig.queue.flush();
  takeProperty(rig, () => {
    rig.queue.setProperty('p', 2);
    write(rig);
  });
  rig.queue.flush();
  rig.crash();
  expect(takeProperty(rig)).toEqual(['p', '2']);
  expect(takeProperty(rig)).toBeUndefined();
});

test('never sends the written value of a property after its newer one', () => {
  using rig = new QueueRig();
  for (const name of ['p', 'q']) rig.queue.setProperty(name, 1);
  rig.queue.flush();
  expect(takeProperty(rig)).toEqual(['p', '1']); // q was read ahead with it
  for (const name of ['p', 'q']) rig.queue.setProperty(name, 2);
  const sent = new Map([takeProperty(rig), takeProperty(rig)].filter((taken) => taken !== undefined));
  expect(sent).toEqual(
    new Map([
      ['p', '2'],
      ['q', '2'],
    ]),
  );
  expect(takeProperty(rig)).toBeUndefined();
  rig.queue.flush();
  rig.crash();
  expect(takeProperty(rig)).toBeUndefined();
});

// Regression: the old value was still on disk when the new one had been accepted, and was sent after it.
test('never sends an older value of a property after a crash', () => {
  using rig = new QueueRig();
  rig.queue.setProperty('p', 1);
  rig.queue.flush();
  for (const value of [2, 3]) {
    rig.queue.setProperty('p', value);
    expect(takeProperty(rig)).toEqual(['p', String(value)]);
  }
  rig.crash();
  expect(takeProperty(rig)?.[1] ?? '3').toBe('3');
});

test('acknowledges a value of a property with the newer one that replaced it', async () => {
  using rig = new QueueRig();
  const acks = [1, 2].map((value) => rig.queue.setProperty('p', value).settled);
  takeProperty(rig);
  expect(await Promise.all(acks)).toEqual(['service', 'service']);
});
