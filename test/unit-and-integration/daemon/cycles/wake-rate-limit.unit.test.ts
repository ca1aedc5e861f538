import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { WakeRateLimit } from '../../../../src/daemon/cycles/scheduler.ts';

describe('WakeLimit', () => {
  test('is due immediately the first time, then after the limit, once for any number of requests', () => {
    const limit = new WakeRateLimit();
    expect([0, 1, 50, 99].map((nowMs) => limit.nextMs(nowMs, 100))).toEqual([0, 100, 100, 100]);
    expect(limit.nextMs(100, 100)).toBe(200);
    expect(limit.nextMs(1_000, 100)).toBe(1_000);
  });

  test('is not put off by a clock that is set back, or by a limit that was longer', () => {
    const limit = new WakeRateLimit();
    expect([1_000_000, 1_000_001].map((nowMs) => limit.nextMs(nowMs, 100))).toEqual([1_000_000, 1_000_100]);
    expect(limit.nextMs(5, 100)).toBe(105);
    expect(limit.nextMs(5, 20)).toBe(25);
  });

  test('never allows two checks within the limit, and serves every request', () => {
    const gaps = fc.array(fc.nat({ max: 300 }), { minLength: 1, maxLength: 50 });
    fc.assert(
      fc.property(gaps, fc.nat({ max: 500 }), (steps, limitMs) => {
        const limit = new WakeRateLimit();
        const due = new Set<number>();
        let nowMs = 0;
        for (const step of steps) {
          nowMs += step;
          const next = limit.nextMs(nowMs, limitMs);
          expect(next).toBeGreaterThanOrEqual(nowMs);
          expect(next - nowMs).toBeLessThanOrEqual(limitMs);
          due.add(next);
        }
        const times = [...due];
        for (const [index, timeMs] of times.slice(1).entries()) {
          expect(timeMs - (times[index] ?? 0)).toBeGreaterThanOrEqual(limitMs);
        }
      }),
    );
  });
});
