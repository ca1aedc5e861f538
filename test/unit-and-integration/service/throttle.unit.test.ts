import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import type { MaxRate } from '../../../src/service/settings.ts';
import { rateAt, Throttle } from '../../../src/service/throttle.ts';
import { ManualClock } from '../../fakes/clock.ts';

const { signal } = new AbortController();
const KIB = 1024;
const always = (bytesPerSecond: number): readonly MaxRate[] => [{ window: undefined, bytesPerSecond }];
const byDay: readonly MaxRate[] = [
  { window: { fromMinute: 8 * 60, toMinute: 18 * 60 }, bytesPerSecond: 50 * KIB },
  { window: { fromMinute: 22 * 60, toMinute: 6 * 60 }, bytesPerSecond: 500 * KIB },
];
const localTime = (hour: number, minute = 0): number => new Date(2027, 0, 1, hour, minute).getTime();

/** Time that passes only by being slept; the wall clock is set apart from it. */
class TwoClocks extends ManualClock {
  wallMs = localTime(12);

  override nowMs(): number {
    return this.wallMs;
  }

  override async sleep(ms: number, awake: AbortSignal): Promise<void> {
    await super.sleep(ms, awake);
    this.wallMs += ms;
  }
}

describe('a bound on downloads', () => {
  const rates = fc.integer({ min: 1_024, max: 1_000_000 });
  const chunks = fc.array(
    fc.record({ bytes: fc.integer({ min: 1, max: 300_000 }), pauseMs: fc.integer({ min: 0, max: 3_000 }) }),
    { minLength: 1, maxLength: 30 },
  );

  test('never lets more pass than rate × time and the burst of a second, and everything in the end', async () => {
    await fc.assert(
      fc.asyncProperty(rates, chunks, async (rate, all) => {
        const clock = new TwoClocks();
        const throttle = new Throttle(always(rate), clock);
        const startMs = clock.monotonicMs();
        let passed = 0;
        for (const { bytes, pauseMs } of all) {
          clock.advance(pauseMs);
          await throttle.pass(bytes, signal);
          passed += bytes;
          const seconds = (clock.monotonicMs() - startMs) / 1_000;
          expect(passed).toBeLessThanOrEqual(rate * (seconds + 1) * (1 + 1e-9));
        }
        // nor does it take longer than the rate requires, except for rounding each wait up to a millisecond
        const paused = all.reduce((sum, { pauseMs }) => sum + pauseMs, 0);
        const neededMs = (passed / rate) * 1_000;
        expect(clock.monotonicMs() - startMs).toBeLessThanOrEqual(paused + neededMs + all.length + 1);
      }),
      { numRuns: 60 },
    );
  });

  test('is one bound for all that read at the same time, and each of them gets its turn', async () => {
    const clock = new ManualClock();
    const throttle = new Throttle(always(10 * KIB), clock);
    const startMs = clock.monotonicMs();
    await Promise.all([1, 2, 3].map(async () => throttle.pass(20 * KIB, signal)));
    expect(clock.monotonicMs() - startMs).toBeGreaterThanOrEqual(5_000);
  });

  test('is not moved by a wall clock that is set while it waits', async () => {
    const clock = new TwoClocks();
    const throttle = new Throttle(always(KIB), clock);
    const startMs = clock.monotonicMs();
    const jumps = [Date.UTC(2040, 0, 1), 0, Date.UTC(2026, 10, 2)];
    await throttle.pass(11 * KIB, signal, () => {
      clock.wallMs = jumps.shift() ?? clock.wallMs;
    });
    expect(jumps).toEqual([]);
    expect(clock.monotonicMs() - startMs).toBe(10_000);
  });

  test('ends with the signal in the middle of a wait', async () => {
    const clock = new ManualClock();
    const stop = new AbortController();
    const reason = new Error('stop');
    const passing = new Throttle(always(KIB), clock).pass(1_000 * KIB, stop.signal, () => {
      if (clock.slept.length === 3) stop.abort(reason);
    });
    await expect(passing).rejects.toBe(reason);
    expect(clock.slept).toHaveLength(3);
  });
});

describe('a bound by the time of day', () => {
  test.each([
    [7 * 60 + 59, undefined],
    [8 * 60, 50 * KIB],
    [18 * 60, undefined],
    [23 * 60, 500 * KIB],
    [0, 500 * KIB],
    [undefined, 50 * KIB],
  ])('is at minute %s: %s', (minute, expected) => {
    expect(rateAt(byDay, minute)).toBe(expected);
  });

  test('ends in the middle of a wait when its time is over', async () => {
    const clock = new TwoClocks();
    clock.wallMs = localTime(17, 59) + 55_000;
    await new Throttle(byDay, clock).pass(10_000 * KIB, signal);
    expect(clock.slept).toEqual(Array.from({ length: 10 }, () => 500));
  });

  test('is reported, with its end, from the first wait until a while after the last', async () => {
    const clock = new TwoClocks();
    const throttle = new Throttle(byDay, clock);
    expect(throttle.inForce).toBeUndefined();
    await throttle.pass(10 * KIB, signal);
    expect(throttle.inForce).toBeUndefined();
    await throttle.pass(100 * KIB, signal);
    expect(throttle.inForce).toEqual({ bytesPerSecond: 50 * KIB, untilMs: localTime(18) });
    clock.advance(60_000);
    expect(throttle.inForce).toBeUndefined();
  });

  test('has no known end without a clock, nor if it never changes', async () => {
    const clock = new TwoClocks();
    clock.wallMs = 0;
    const [unknown, constant] = [new Throttle(byDay, clock), new Throttle(always(KIB), new TwoClocks())];
    for (const throttle of [unknown, constant]) await throttle.pass(100 * KIB, signal);
    expect(unknown.inForce).toEqual({ bytesPerSecond: 50 * KIB, untilMs: undefined });
    expect(constant.inForce).toEqual({ bytesPerSecond: KIB, untilMs: undefined });
  });
});
