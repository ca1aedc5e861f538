import assert from 'node:assert/strict';

import fc from 'fast-check';
import { expect, test } from 'vitest';

import { silentLog } from '../../../src/system/log/log.ts';
import { Delivery } from '../../../src/telemetry/delivery/delivery.ts';
import type { DeliveryDeps } from '../../../src/telemetry/delivery/delivery.ts';
import { FakeValues, serviceError } from './fake-values.ts';
import { QueueRig, point, points } from './queue/queue-rig.ts';

const forever = new AbortController().signal;

class DeliveryRig extends QueueRig {
  readonly service = new FakeValues();
  readonly delivery: Delivery;

  constructor(options: Partial<DeliveryDeps> = {}) {
    super();
    this.delivery = new Delivery({
      queue: this.queue,
      service: this.service,
      clock: this.clock,
      random: () => 1,
      log: silentLog,
      batchPoints: 500,
      gatherMs: 0,
      backlogPointsPerSecond: 1_000_000,
      isLineTaken: () => false,
      ...options,
    });
  }
}

test('a batch holds points of one event, with times in UTC, to the millisecond, unique and rising', async () => {
  using rig = new DeliveryRig();
  rig.queue.push([...points(2, 'a'), ...points(1, 'b')]);
  await rig.delivery.deliver('live', forever);
  expect(rig.service.posted.map(({ event, datapoints }) => [event, datapoints])).toEqual([
    [
      'a',
      [
        { value: 0, at: '2027-01-01T00:00:00.000Z' },
        { value: 1, at: '2027-01-01T00:00:00.001Z' },
      ],
    ],
    ['b', [{ value: 0, at: '2027-01-01T00:00:00.000Z' }]],
  ]);
});

test.each(['key-rejected', 'service-request-timeout', 'service-rate-limited', 'service-failed', 'connection-refused'])(
  'after %s the same bytes are sent again, and nothing is lost',
  async (code) => {
    using rig = new DeliveryRig();
    let failures = 3;
    rig.service.answer = () => (failures-- > 0 ? serviceError(code) : undefined);
    rig.queue.push(points(3));
    await rig.delivery.deliver('live', forever);
    const bodies = rig.service.posted.map(({ datapoints }) => JSON.stringify(datapoints));
    expect(bodies).toHaveLength(4);
    expect(new Set(bodies).size).toBe(1);
    expect(rig.service.valuesOf('e')).toEqual([0, 1, 2]);
    expect(rig.clock.slept).toEqual([1_000, 2_000, 4_000]);
    expect(rig.delivery.figures()).toMatchObject({ delivered: 3, resent: 9, error: undefined });
  },
);

test('pauses grow to five minutes and no further, and Retry-After is honoured', async () => {
  using rig = new DeliveryRig();
  let failures = 12;
  rig.service.answer = () => {
    failures -= 1;
    if (failures === 11) return serviceError('service-rate-limited', 20_000);
    return failures > 0 ? serviceError('service-unavailable') : undefined;
  };
  rig.queue.push(points(1));
  await rig.delivery.deliver('live', forever);
  expect(rig.clock.slept[0]).toBe(20_000 + 20_000); // and what is drawn comes after it
  expect(Math.max(...rig.clock.slept)).toBe(300_000);
});

test('what is too large is split, and the service is not asked the same again', async () => {
  using rig = new DeliveryRig();
  rig.service.answer = ({ datapoints }) => (datapoints.length > 30 ? serviceError('service-too-large') : undefined);
  rig.queue.push(points(100));
  await rig.delivery.deliver('live', forever);
  expect(rig.service.valuesOf('e')).toEqual(Array.from({ length: 100 }, (_, index) => index));
  const refused = rig.service.posted.length - rig.service.accepted.length;
  rig.queue.push(points(100));
  await rig.delivery.deliver('live', forever);
  expect(rig.service.posted.length - rig.service.accepted.length).toBeLessThan(refused * 2);
});

test.each(['service-rejected', 'service-conflict'])(
  'after %s the culprits are found, and only they are set aside',
  async (code) => {
    using rig = new DeliveryRig();
    const bad = new Set([7, 8, 63]);
    rig.service.answer = ({ datapoints }) =>
      datapoints.some(({ value }) => bad.has(Number(value))) ? serviceError(code) : undefined;
    rig.queue.push(points(100));
    await rig.delivery.deliver('live', forever);
    expect(rig.service.valuesOf('e')).toEqual(
      Array.from({ length: 100 }, (_, index) => index).filter((one) => !bad.has(one)),
    );
    rig.queue.flush();
    const letters = rig.queue.deadLetters(10);
    expect(new Set(letters.map(({ text }) => Number(text)))).toEqual(bad);
    expect(letters[0]?.reason).toContain(code);
  },
);

test('a service that refuses everything does not get to empty the queue', async () => {
  using rig = new DeliveryRig();
  rig.service.answer = () => serviceError('service-rejected');
  rig.queue.push(points(400));
  await rig.delivery.deliver('live', forever);
  expect(rig.waiting).toBe(380);
  expect(rig.delivery.figures().suspendedEvents).toEqual(['e']);
  rig.service.answer = () => undefined;
  rig.clock.advance(300_000);
  await rig.delivery.deliver('live', forever);
  expect(rig.service.valuesOf('e')).toHaveLength(380);
});

test('an event that the service does not know is suspended; the others continue', async () => {
  using rig = new DeliveryRig();
  rig.service.answer = ({ event }) => (event === 'unknown' ? serviceError('service-not-found') : undefined);
  rig.queue.push([...points(3, 'unknown'), ...points(3, 'known')]);
  rig.queue.flush();
  await rig.delivery.deliver('backlog', forever);
  expect(rig.service.valuesOf('known')).toEqual([0, 1, 2]);
  rig.service.answer = () => undefined;
  rig.clock.advance(300_000);
  await rig.delivery.deliver('backlog', forever);
  expect(rig.service.valuesOf('unknown')).toEqual([0, 1, 2]);
});

test('the backlog keeps to its pace and rests while an update has the line; live points do not', async () => {
  let rests = 3;
  using rig = new DeliveryRig({ backlogPointsPerSecond: 100, isLineTaken: () => rests-- > 0, batchPoints: 50 });
  rig.queue.push(points(150));
  rig.queue.flush();
  rig.queue.push([point('live')]);
  await rig.delivery.deliver('live', forever);
  expect(rig.clock.slept).toEqual([]);
  await rig.delivery.deliver('backlog', forever);
  expect(rig.clock.slept).toEqual([1_000, 1_000, 1_000, 500, 500, 500]);
});

test('the last value of a property arrives; a rejected one is dropped, an unknown one is suspended', async () => {
  using rig = new DeliveryRig();
  rig.service.answerProperty = (id) => {
    if (id === 'bad') return serviceError('service-rejected');
    return id === 'new' ? serviceError('service-not-found') : undefined;
  };
  for (const id of ['good', 'bad', 'new']) for (const value of [1, { two: 2 }]) rig.queue.setProperty(id, value);
  await rig.delivery.deliver('property', forever);
  expect([...rig.service.properties]).toEqual([['good', { two: 2 }]]);
  rig.service.answerProperty = () => undefined;
  rig.clock.advance(300_000);
  await rig.delivery.deliver('property', forever);
  expect([...rig.service.properties.keys()]).toEqual(['good', 'new']);
});

test('delivery that is stopped gives everything back', async () => {
  using rig = new DeliveryRig();
  const stop = new AbortController();
  rig.service.answer = () => {
    stop.abort(new Error('enough'));
    return serviceError('connection-reset');
  };
  rig.queue.push(points(3));
  await expect(rig.delivery.deliver('live', stop.signal)).rejects.toThrow('enough');
  expect(rig.waiting).toBe(3);
  rig.crash();
  expect(rig.waiting).toBe(0);
});

test('whatever the service answers, every point arrives once or is set aside, in order', async () => {
  const codes = [
    'service-failed',
    'service-too-large',
    'service-rejected',
    'key-rejected',
    undefined,
    undefined,
  ] as const;
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.constantFrom(...codes), { maxLength: 60 }),
      fc.integer({ min: 1, max: 200 }),
      async (script, count) => {
        using rig = new DeliveryRig();
        const answers = [...script];
        rig.service.answer = () => {
          const code = answers.shift();
          return code === undefined ? undefined : serviceError(code);
        };
        rig.queue.push(points(count));
        if (count % 2 === 0) rig.queue.flush();
        for (let round = 0; round < 20 && rig.waiting > 0; round += 1) {
          await rig.delivery.deliver('live', forever);
          await rig.delivery.deliver('backlog', forever);
          rig.queue.flush();
          rig.clock.advance(300_000);
        }
        const arrived = rig.service.valuesOf('e').map(Number);
        assert.deepEqual(
          arrived,
          [...arrived].sort((a, b) => a - b),
        );
        assert.equal(new Set(arrived).size, arrived.length);
        assert.equal(arrived.length + rig.queue.figures().dropped.refused, count);
      },
    ),
    { numRuns: 60 },
  );
});

test('suspended values, and values that wait for the service, are tried immediately after a new activation', async () => {
  using rig = new DeliveryRig();
  rig.service.answer = () => serviceError('service-not-found');
  rig.queue.push(points(3, 'e'));
  rig.queue.flush();
  await rig.delivery.deliver('backlog', forever);
  expect(rig.delivery.figures().suspendedEvents).toEqual(['e']);
  rig.service.answer = () => undefined;
  await rig.delivery.deliver('backlog', forever);
  expect(rig.service.valuesOf('e')).toEqual([]);
  rig.delivery.tryAgain();
  await rig.delivery.deliver('backlog', forever);
  expect(rig.service.valuesOf('e')).toEqual([0, 1, 2]);
});
