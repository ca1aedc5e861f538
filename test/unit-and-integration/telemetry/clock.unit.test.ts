import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { describe, expect, test } from 'vitest';

import { silentLog } from '../../../src/system/log/log.ts';
import { WallClock, probeSynchronization } from '../../../src/telemetry/clock/clock.ts';
import type { ServiceTime, Synchronization } from '../../../src/telemetry/clock/clock.ts';
import { ManualClock } from '../../fakes/clock.ts';

const forever = new AbortController().signal;

function watch(
  found: () => Synchronization,
  clock = new ManualClock(),
  sinceBootMs = () => 60_000,
  requestTime: () => ServiceTime | boolean = () => true,
) {
  const starts: number[] = [];
  const wall: WallClock = new WallClock({
    clock,
    sinceBootMs,
    probe: async () => found(),
    requestTime: async () => {
      const time = requestTime();
      if (typeof time === 'object') wall.onServiceTime(time);
      return time !== false;
    },
    log: silentLog,
    onSet: (startedAtMs) => starts.push(startedAtMs),
  });
  return { wall, clock, starts };
}

test('until a time server was reached a point has the time since the boot; then the boot gets its date', async () => {
  let found: Synchronization = 'not-yet';
  const { wall, clock, starts } = watch(() => found);
  await wall.poll(forever);
  expect(wall.now()).toEqual({ kind: 'since-boot' });
  found = 'synchronized';
  await wall.poll(forever);
  expect(wall.now()).toEqual({ kind: 'known', atMs: clock.nowMs() });
  expect(starts).toEqual([clock.nowMs() - 60_000]);
});

test('without synchronization a plausible clock is believed immediately, and reported as assumed', async () => {
  const { wall } = watch(() => 'unknown');
  await wall.poll(forever);
  expect(wall.state).toBe('assumed');
});

test.each([0, Date.UTC(2021, 0, 1), Date.UTC(2106, 1, 7)])('a clock that shows %d is never believed', async (nowMs) => {
  const { wall } = watch(() => 'synchronized', new ManualClock(nowMs));
  await wall.poll(forever);
  expect(wall.state).toBe('unset');
});

test('if no reply shows a time, the clock is believed after a quarter of an hour, until a time server is reached', async () => {
  const clock = new ManualClock();
  const began = clock.nowMs();
  const { wall, starts } = watch(() => (clock.nowMs() - began > 17 * 60_000 ? 'synchronized' : 'not-yet'), clock);
  await wall.run(forever);
  expect(wall.state).toBe('set');
  expect(starts.map((start) => Math.round((start + 60_000 - began) / 60_000))).toEqual([15, 17]);
});

// Regression: datapoints got the time of the unsynchronized clock after a quarter of an hour without a network.
test.each(['reached after an hour', 'never reached'])('waits for the time of a service that is %s', async (when) => {
  const clock = new ManualClock();
  const [began, right] = [clock.monotonicMs(), Date.UTC(2030, 0, 1)];
  const end = new AbortController();
  const requestTime = (): ServiceTime | boolean => {
    const { state } = wall;
    expect(state).toBe('unset');
    if (clock.monotonicMs() - began > 6 * 3_600_000) end.abort();
    if (when === 'never reached' || clock.monotonicMs() - began < 3_600_000) return false;
    end.abort();
    return { atMs: right, monotonicMs: clock.monotonicMs() };
  };
  const { wall, starts } = watch(
    () => 'not-yet',
    clock,
    () => clock.monotonicMs(),
    requestTime,
  );
  await wall.run(end.signal).catch(() => {});
  expect(starts).toEqual(when === 'never reached' ? [] : [right - clock.monotonicMs()]);
});

test('requests no time where a time server sets the clock in time', async () => {
  let isSet = false;
  const { wall } = watch(
    () => (isSet ? 'synchronized' : 'not-yet'),
    new ManualClock(),
    () => 0,
    () => {
      expect(isSet).toBe(false); // the one request, before the second look
      isSet = true;
      return false;
    },
  );
  await wall.run(forever);
  expect(wall.state).toBe('set');
});

/** Regression in simulated weeks: it checked every five seconds, for ever, and each check starts a program. */
test('checks less and less often if nothing ever sets the clock, and never with an impossible clock', async () => {
  const looksIn = async (ms: number, clock: ManualClock): Promise<number> => {
    const began = clock.monotonicMs();
    const end = new AbortController();
    let looks = 0;
    const { wall } = watch(() => {
      looks += 1;
      if (clock.monotonicMs() - began > ms) end.abort();
      return 'unknown';
    }, clock);
    await wall.run(end.signal).catch(() => {});
    return looks;
  };
  expect(await looksIn(24 * 3_600_000, new ManualClock())).toBeLessThan(40);
  const { wall } = watch(() => expect.unreachable(), new ManualClock(0));
  await wall.poll(forever);
});

describe('the service’s clock', () => {
  const right = Date.UTC(2027, 3, 1, 12, 0, 0, 0);
  const heardBy = (clock: ManualClock, atMs = right) => ({ atMs, monotonicMs: clock.monotonicMs() });

  test.each([0, Date.UTC(2021, 0, 1), Date.UTC(2027, 1, 1), Date.UTC(2028, 0, 1), Date.UTC(2106, 1, 7)])(
    'is believed where nothing sets this one, which shows %d, and that is marked',
    async (nowMs) => {
      const { wall, clock, starts } = watch(() => 'not-yet', new ManualClock(nowMs));
      await wall.poll(forever);
      expect(wall.now()).toEqual({ kind: 'since-boot' });
      wall.onServiceTime(heardBy(clock));
      expect([wall.state, wall.now()]).toEqual(['service', { kind: 'known', atMs: right }]);
      expect(starts).toEqual([right - 60_000]);
    },
  );

  test('counts from its arrival, and is not believed before the machine was checked', async () => {
    const { wall, clock, starts } = watch(() => 'not-yet', new ManualClock(0));
    wall.onServiceTime(heardBy(clock));
    expect(wall.state).toBe('unset');
    clock.advance(90_000);
    await wall.poll(forever);
    expect(starts).toEqual([right + 90_000 - 60_000]);
  });

  test('gives way to a time server’s', async () => {
    let found: Synchronization = 'not-yet';
    const { wall, clock, starts } = watch(() => found);
    await wall.poll(forever);
    wall.onServiceTime(heardBy(clock));
    found = 'synchronized';
    await wall.poll(forever);
    expect([wall.state, wall.now()]).toEqual(['set', { kind: 'known', atMs: clock.nowMs() }]);
    wall.onServiceTime(heardBy(clock));
    expect(wall.state).toBe('set');
    expect(starts).toEqual([right - 60_000, clock.nowMs() - 60_000]);
  });

  test('corrects an assumed clock, unless the two agree', async () => {
    const { wall, clock, starts } = watch(() => 'unknown', new ManualClock(right + 1_234));
    await wall.poll(forever);
    wall.onServiceTime(heardBy(clock));
    expect([wall.state, starts]).toEqual(['assumed', [right + 1_234 - 60_000]]);
    wall.onServiceTime(heardBy(clock, right - 86_400_000));
    expect([wall.state, starts.at(-1)]).toEqual(['service', right - 86_400_000 - 60_000]);
  });

  test('knows only seconds: where this one agrees its milliseconds are kept', async () => {
    const { wall, clock, starts } = watch(() => 'not-yet', new ManualClock(right + 1_234));
    await wall.poll(forever);
    wall.onServiceTime(heardBy(clock));
    expect([wall.state, starts]).toEqual(['service', [right + 1_234 - 60_000]]);
  });

  test('is reported once, not with each reply', async () => {
    const clock = new ManualClock(0);
    const { wall, starts } = watch(
      () => 'not-yet',
      clock,
      () => clock.monotonicMs(),
    );
    await wall.poll(forever);
    for (let second = 0; second < 100; second += 1) {
      wall.onServiceTime(heardBy(clock, right + second * 1_000));
      clock.advance(1_000);
    }
    expect(starts).toHaveLength(1);
  });

  test.each([0, Date.UTC(2021, 0, 1), Number.NaN, Date.UTC(2150, 0, 1)])(
    'that shows %d is not believed',
    async (atMs) => {
      const { wall, clock } = watch(() => 'not-yet', new ManualClock(0));
      await wall.poll(forever);
      wall.onServiceTime(heardBy(clock, atMs));
      expect(wall.state).toBe('unset');
    },
  );
});

test('timesyncd tells by a file', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'timesync-'));
  writeFileSync(join(directory, 'synchronized'), '');
  expect(await probeSynchronization(directory)(forever)).toBe('synchronized');
  rmSync(directory, { recursive: true });
});
