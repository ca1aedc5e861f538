import { setImmediate } from 'node:timers/promises';

import { expect, test } from 'vitest';

import { silentLog } from '../../../src/system/log/log.ts';
import { systemClock } from '../../../src/system/time/clock.ts';
import { TelemetryError } from '../../../src/telemetry/errors.ts';
import { SourceRunner } from '../../../src/telemetry/source-runner.ts';
import type { OnReading } from '../../../src/telemetry/source-runner.ts';
import { inTime } from '../../../src/telemetry/sources/create-source.ts';
import { parseReading } from '../../../src/telemetry/sources/parse-reading.ts';
import { sourceFailed } from '../../../src/telemetry/sources/source.ts';
import type { ReadingSink, Source } from '../../../src/telemetry/sources/source.ts';
import { ManualClock } from '../../fakes/clock.ts';

const forever = new AbortController().signal;

interface More {
  readonly idleTimeoutMs?: number;
  readonly clock?: ManualClock;
  readonly onReading?: OnReading;
}

function runner(source: Source, more: More = {}) {
  const readings: unknown[] = [];
  const { idleTimeoutMs, clock = systemClock } = more;
  const ways = { clock, random: () => 1, log: silentLog };
  const rate = { pointsPerSecond: 10, bytesPerSecond: 100 };
  const options = { name: 'probe', rate, source, everyMs: 10_000, timeoutMs: 1_000, idleTimeoutMs, ...ways };
  const made = new SourceRunner({
    ...options,
    onReading: more.onReading ?? ((reading) => readings.push(reading) > 0),
  });
  return { made, readings };
}

test('a source that fails is reported with its last error until it works again', async () => {
  let fails = true;
  const { made, readings } = runner({
    kind: 'polled',
    read: async () => {
      if (fails) throw sourceFailed('probe', 'is unplugged');
      return 5;
    },
  });
  await made.once(forever);
  expect(made.figures).toMatchObject({
    name: 'probe',
    state: undefined,
    readings: 0,
    failures: 1,
    dropped: 0,
    lastError: 'probe: is unplugged',
  });
  fails = false;
  await made.once(forever);
  expect(made.figures).toMatchObject({ state: 'parsing', readings: 1, lastError: undefined });
  expect(readings).toEqual([5]);
});

test('shows since when a source fails, with which code, and its last reading', async () => {
  const clock = new ManualClock();
  let fails = false;
  const read = async (): Promise<number> => {
    if (fails) throw sourceFailed('probe', 'is unplugged');
    return 5;
  };
  const { made } = runner({ kind: 'polled', read }, { clock });
  expect(made.details).toMatchObject({ lastReading: undefined, perMinute: undefined, failingForMs: undefined });
  for (let count = 0; count < 3; count += 1) {
    await made.once(forever);
    clock.advance(10_000);
  }
  fails = true;
  await made.once(forever);
  clock.advance(10_000);
  await made.once(forever);
  expect(made.details).toMatchObject({
    lastReading: 5,
    perMinute: 3,
    lastErrorCode: 'source-failed',
    failingForMs: 10_000,
  });
  fails = false;
  await made.once(forever);
  expect(made.details).toMatchObject({ lastErrorCode: undefined, failingForMs: undefined });
});

test('shows the age of the last reading after any failures', async () => {
  const clock = new ManualClock();
  let fails = false;
  const { made } = runner(
    {
      kind: 'polled',
      read: async () => {
        if (fails) throw sourceFailed('probe', 'is unplugged');
        return 5;
      },
    },
    { clock },
  );
  expect(made.figures.lastReadingAgeMs).toBeUndefined();
  await made.once(forever);
  clock.advance(7_000);
  fails = true;
  await made.once(forever);
  expect(made.figures).toMatchObject({ lastReadingAgeMs: 7_000, failures: 1 });
});

test('a push source that falls silent is stopped and reported, if configured', async () => {
  const { made, readings } = runner(
    {
      kind: 'pushed',
      run: async (intake, signal) => {
        intake.take(() => 1);
        const ended = Promise.withResolvers<never>();
        signal.addEventListener('abort', () => ended.reject(signal.reason as Error));
        return ended.promise;
      },
    },
    { idleTimeoutMs: 10 },
  );
  await made.once(forever);
  expect(readings).toEqual([1]);
  expect(made.figures).toMatchObject({ failures: 1, lastError: 'probe: nothing came for 10 ms' });
});

test('a source that hangs and ignores its signal is abandoned at its deadline and not polled again until it ends', async () => {
  const hanging = Promise.withResolvers<number>();
  let asked = 0;
  const source = inTime(
    {
      kind: 'polled',
      read: async () => {
        asked += 1;
        return asked === 1 ? hanging.promise : 7;
      },
    },
    { name: 'probe', timeoutMs: 5 },
  );
  const { made, readings } = runner(source);
  await made.once(forever);
  expect(made.figures.lastError).toContain('no reading within 5 ms');
  await made.once(forever);
  expect(asked).toBe(1);
  hanging.resolve(1);
  await setImmediate();
  await made.once(forever);
  expect(readings).toEqual([7]);
});

test('a source is polled at its interval, and a push source is restarted, later and later', async () => {
  const stop = new AbortController();
  const clock = new ManualClock();
  let lives = 0;
  const { made, readings } = runner(
    {
      kind: 'pushed',
      run: async (intake) => {
        lives += 1;
        if (lives === 5) stop.abort(new Error('enough'));
        if (lives === 4) intake.take(() => 'spoke');
        throw sourceFailed('probe', 'ended');
      },
    },
    { clock },
  );
  await expect(made.run(stop.signal)).rejects.toThrow('enough');
  expect(clock.slept).toEqual([1_000, 1_000, 2_000, 4_000, 1_000]);
  expect(readings).toEqual(['spoke']);
});

test('readings keep their interval', async () => {
  const stop = new AbortController();
  const clock = new ManualClock();
  let asked = 0;
  const { made } = runner(
    {
      kind: 'polled',
      read: async () => {
        asked += 1;
        clock.advance(3_000);
        if (asked === 3) stop.abort(new Error('enough'));
        return asked;
      },
    },
    { clock },
  );
  await expect(made.run(stop.signal)).rejects.toThrow('enough');
  expect(clock.slept).toEqual([1_000, 7_000, 7_000]);
});

test('readings above the rate are dropped unread, counted and reported; later ones are accepted again', async () => {
  const clock = new ManualClock();
  let parsed = 0;
  const say = (intake: ReadingSink, times: number): void => {
    for (let left = times; left > 0; left -= 1) intake.take(() => (parsed += 1));
  };
  const { made, readings } = runner(
    {
      kind: 'pushed',
      run: async (intake) => {
        say(intake, 1_000);
        clock.advance(1_000);
        say(intake, 1_000);
      },
    },
    { clock },
  );
  await made.once(forever);
  expect(parsed).toBe(60); // a burst of five seconds, and then a burst of one
  expect(readings).toHaveLength(60);
  expect(made.figures).toMatchObject({ readings: 60, dropped: 1_940, lastDrop: 'more than 10 a second' });
});

test('a source that reads faster than allowed must pause for as long as it was too fast', async () => {
  const clock = new ManualClock();
  const { made } = runner(
    {
      kind: 'pushed',
      run: async (intake) => {
        expect(intake.rest(100)).toBeUndefined();
        await intake.rest(50);
        await intake.rest(300);
      },
    },
    { clock },
  );
  await made.once(forever);
  expect(clock.slept).toEqual([500, 3_000]);
});

test.each([
  ['a bug of whoever takes a reading', new RangeError('Maximum call stack size exceeded')],
  ['a value that cannot be kept', new TelemetryError('too-many-names', 'no more names')],
])('%s costs this reading alone', async (_, error) => {
  const { made } = runner(
    {
      kind: 'pushed',
      run: async (intake) => {
        intake.take(() => 1);
        intake.take(() => 2);
      },
    },
    {
      onReading: () => {
        throw error;
      },
    },
  );
  await made.once(forever);
  expect(made.figures).toMatchObject({ dropped: 2, lastDrop: error.message });
});

test('a source with a bug counts as failed, and harms no other', async () => {
  const { made } = runner({
    kind: 'polled',
    read: async () => {
      throw new RangeError('too deep');
    },
  });
  await made.once(forever);
  expect(made.figures).toMatchObject({ failures: 1, lastError: 'too deep' });
});

test('a reading that is nested too deep is dropped, and the next is taken', async () => {
  const { made, readings } = runner({
    kind: 'pushed',
    run: async (intake) => {
      for (const text of [`${'['.repeat(8_000)}${']'.repeat(8_000)}`, '7']) intake.take(() => parseReading(text));
    },
  });
  await made.once(forever);
  expect(readings).toEqual([7]);
  expect(made.figures).toMatchObject({ dropped: 1, lastDrop: 'a reading is nested deeper than 32 levels' });
});
