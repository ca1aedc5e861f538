import fc from 'fast-check';
import { getTasks } from 'node-cron';
import { describe, expect, test, vi } from 'vitest';

import {
  cronSchedule,
  firstTurnMs,
  sleepUntil,
  splayOffsetMs,
  splayedStartMs,
} from '../../../../src/daemon/cycles/schedule.ts';
import type { Clock } from '../../../../src/system/time/clock.ts';
import { ManualClock } from '../../../fakes/clock.ts';

const { signal } = new AbortController();

describe('the splay', () => {
  test('is the same for one gateway each time, and within its bound', () => {
    fc.assert(
      fc.property(fc.string(), fc.integer({ min: 1, max: 604_800_000 }), (serialNumber, splayMs) => {
        const offsetMs = splayOffsetMs(serialNumber, splayMs);
        expect(offsetMs).toBe(splayOffsetMs(serialNumber, splayMs));
        expect(offsetMs).toBeGreaterThanOrEqual(0);
        expect(offsetMs).toBeLessThan(splayMs);
      }),
    );
  });

  test('spreads a fleet evenly', () => {
    const quarters = [0, 0, 0, 0];
    for (let n = 0; n < 4_000; n += 1) {
      const quarter = splayOffsetMs(`GW-${n}`, 4);
      quarters[quarter] = (quarters[quarter] ?? 0) + 1;
    }
    for (const count of quarters) expect(Math.abs(count - 1_000)).toBeLessThan(150);
  });
});

describe('the schedule', () => {
  test('follows cron, then the splay', async () => {
    const nowMs = Date.now();
    const dueMs = (await cronSchedule('*/15 * * * *', 600_000, 'GW-1'))(nowMs);
    expect(dueMs).toBeGreaterThan(nowMs);
    expect((dueMs - splayOffsetMs('GW-1', 600_000)) % 900_000).toBe(0);
  });

  /** Checks of four hours, in milliseconds since their beginning. */
  async function looks(expression: string, splayMs: number, serialNumber: string): Promise<readonly number[]> {
    const startMs = Date.UTC(2027, 0, 1);
    const found: number[] = [];
    vi.useFakeTimers({ toFake: ['Date'], now: startMs });
    const schedule = await cronSchedule(expression, splayMs, serialNumber);
    for (let nowMs = schedule(startMs); nowMs <= startMs + 14_400_000; nowMs = schedule(nowMs)) {
      vi.setSystemTime(nowMs);
      found.push(nowMs - startMs);
    }
    vi.useRealTimers();
    return found;
  }

  /** Regression: with a splay longer than the interval checks were left out, since only times to come were considered. */
  test.each([0, 1, 7, 20, 90])('includes every check with a splay of %i minutes', async (splay) => {
    for (const serial of ['GW-1', 'GW-2', 'GW-3']) {
      const firstMs = splayOffsetMs(serial, splay * 60_000) % 300_000 || 300_000;
      const expected = Array.from({ length: 48 }, (_, index) => firstMs + index * 300_000);
      expect(await looks('*/5 * * * *', splay * 60_000, serial)).toEqual(expected);
    }
  });

  /** Regression: the package stored each task for ever, and each check made one. */
  test('leaves nothing behind in the package', async () => {
    const { size } = getTasks(); // of other tests of this process
    await looks('*/5 * * * *', 60_000, 'GW-1');
    expect(getTasks().size).toBe(size);
  });

  test('is refused where cron does not know it', async () => {
    const refused = {
      code: 'schedule-invalid',
      exit: 'configuration',
      message: expect.stringContaining('99') as unknown,
    };
    await expect(cronSchedule('99 * * * *', 0, 'GW-1')).rejects.toMatchObject(refused);
  });
});

describe('the turn after a start', () => {
  const nowMs = Date.UTC(2027, 0, 1);

  /** Returns how many of a thousand gateways check in the busiest tenth of their time. */
  function busiestTenth(splayMs: number, turnOf: (serialNumber: string) => number): number {
    const tenths = Array.from({ length: 10 }, () => 0);
    for (let n = 0; n < 1_000; n += 1) {
      const tenth = Math.floor(((turnOf(`GW-${n}`) - nowMs) / splayMs) * 10);
      tenths[tenth] = (tenths[tenth] ?? 0) + 1;
    }
    return Math.max(...tenths);
  }

  /** Regression in a simulated fleet: nine in ten gateways checked in the same second, a minute after a power loss. */
  test('spreads first checks over a minute', () => {
    const turnOf = (serialNumber: string): number => firstTurnMs(nowMs, { serialNumber, splayMs: 900_000 });
    expect(busiestTenth(60_000, turnOf)).toBeLessThan(150);
  });

  test('follows the schedule for all others', () => {
    const turnOf = (serialNumber: string): number => {
      const schedule = (): number => nowMs + splayOffsetMs(serialNumber, 900_000);
      return splayedStartMs(nowMs, schedule, { serialNumber, splayMs: 900_000 });
    };
    expect(busiestTenth(900_000, turnOf)).toBeLessThan(150);
  });

  test('does not wait for a rare schedule', () => {
    const nextYear = (): number => nowMs + 365 * 86_400_000;
    const turnOf = (serialNumber: string): number =>
      splayedStartMs(nowMs, nextYear, { serialNumber, splayMs: 900_000 });
    expect(busiestTenth(900_000, turnOf)).toBeLessThan(150);
  });
});

describe('a sleep until some time', () => {
  test('lasts until then', async () => {
    const clock = new ManualClock();
    const untilMs = clock.nowMs() + 3_600_000;
    await sleepUntil(untilMs, clock, signal);
    expect(clock.nowMs()).toBe(untilMs);
  });

  /** The wall clock is set during the first sleep interval. */
  function setDuringSleep(clock: ManualClock, byMs: number): Clock {
    let setMs = 0;
    const sleep = async (ms: number): Promise<void> => {
      await clock.sleep(ms, signal);
      setMs = byMs;
    };
    return { nowMs: () => clock.nowMs() + setMs, monotonicMs: () => clock.monotonicMs(), sleep };
  }

  test('ends early when the clock was set forward', async () => {
    const clock = new ManualClock();
    await sleepUntil(clock.nowMs() + 86_400_000, setDuringSleep(clock, 40 * 365 * 86_400_000), signal);
    expect(clock.slept).toEqual([300_000]);
  });

  test('wakes at multiples of five minutes of the monotonic clock, with other ticks', async () => {
    const clock = new ManualClock();
    await clock.sleep(70_000, signal);
    await sleepUntil(clock.nowMs() + 900_000, clock, signal);
    expect(clock.slept.slice(1)).toEqual([230_000, 300_000, 300_000, 70_000]);
  });

  test('ends within a minute when the clock is set for the first time', async () => {
    const clock = new ManualClock(Date.UTC(2024, 3, 12));
    await sleepUntil(clock.nowMs() + 86_400_000, setDuringSleep(clock, 3 * 365 * 86_400_000), signal);
    expect(clock.slept).toEqual([60_000]);
  });

  test('ends early when the time zone has changed', async () => {
    const clock = new ManualClock();
    let zone = 0;
    const untilMs = clock.nowMs() + 86_400_000;
    await sleepUntil(untilMs, clock, signal, () => (clock.slept.length > 1 ? (zone = 1) : zone));
    expect(clock.slept).toEqual([300_000, 300_000]);
  });

  test('lasts no longer than it would have when the clock was set back', async () => {
    const clock = new ManualClock();
    await sleepUntil(clock.nowMs() + 3_600_000, setDuringSleep(clock, -40 * 365 * 86_400_000), signal);
    expect(clock.slept.reduce((sum, ms) => sum + ms, 0)).toBe(3_600_000);
  });
});
