import { setImmediate } from 'node:timers/promises';

import { expect, test } from 'vitest';

import { systemClock } from '../../../src/system/clock.ts';
import { silentLog } from '../../../src/system/log.ts';
import { SourceRunner } from '../../../src/telemetry/source-runner.ts';
import { sourceFailed } from '../../../src/telemetry/sources/source.ts';
import type { Source } from '../../../src/telemetry/sources/source.ts';
import { ManualClock } from '../service/manual-clock.ts';

const forever = new AbortController().signal;

function runner(source: Source, more: { timeoutMs?: number; silenceMs?: number; clock?: ManualClock } = {}) {
  const readings: unknown[] = [];
  const { timeoutMs = 1_000, silenceMs, clock = systemClock } = more;
  const ways = { clock, random: () => 1, log: silentLog };
  const options = { name: 'probe', source, everyMs: 10_000, timeoutMs, silenceMs, ...ways };
  const made = new SourceRunner({ ...options, onReading: (reading) => readings.push(reading) });
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
  expect(made.figures).toEqual({ name: 'probe', readings: 0, failures: 1, lastError: 'probe: is unplugged' });
  fails = false;
  await made.once(forever);
  expect(made.figures).toMatchObject({ readings: 1, lastError: undefined });
  expect(readings).toEqual([5]);
});

test('a source that speaks by itself and falls silent is ended and reported, where that is wanted', async () => {
  const { made, readings } = runner(
    {
      kind: 'pushed',
      run: async (onReading, signal) => {
        onReading(1);
        const ended = Promise.withResolvers<never>();
        signal.addEventListener('abort', () => ended.reject(signal.reason as Error));
        return ended.promise;
      },
    },
    { silenceMs: 10 },
  );
  await made.once(forever);
  expect(readings).toEqual([1]);
  expect(made.figures).toMatchObject({ failures: 1, lastError: 'probe: nothing came for 10 ms' });
});

test('a source that hangs, deaf to its signal, is left behind at its deadline and not asked again meanwhile', async () => {
  const hanging = Promise.withResolvers<number>();
  let asked = 0;
  const { made, readings } = runner(
    {
      kind: 'polled',
      read: async () => {
        asked += 1;
        return asked === 1 ? hanging.promise : 7;
      },
    },
    { timeoutMs: 5 },
  );
  await made.once(forever);
  expect(made.figures.lastError).toContain('no reading within 5 ms');
  await made.once(forever);
  expect(asked).toBe(1);
  hanging.resolve(1);
  await setImmediate();
  await made.once(forever);
  expect(readings).toEqual([7]);
});

test('a source is asked at its interval, and one that speaks by itself is begun again, later and later', async () => {
  const stop = new AbortController();
  const clock = new ManualClock();
  let lives = 0;
  const { made, readings } = runner(
    {
      kind: 'pushed',
      run: async (onReading) => {
        lives += 1;
        if (lives === 5) stop.abort(new Error('enough'));
        if (lives === 4) onReading('spoke');
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
