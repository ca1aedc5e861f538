import { describe, expect, test } from 'vitest';

import { backoffMs } from '../../../../src/system/time/retry.ts';

const policy = { attempts: 4, firstDelayMs: 1_000, maxDelayMs: 15_000, maxRetryAfterMs: 30_000 };

describe('a pause', () => {
  test.each([
    [1, 1_000],
    [3, 4_000],
    [30, 15_000],
  ])('after %i failures is drawn between nothing and %i ms', (failures, mostMs) => {
    expect(backoffMs(policy, failures, () => 0)).toBe(0);
    expect(backoffMs(policy, failures, () => 0.999)).toBeCloseTo(mostMs * 0.999);
  });

  /** Regression in a simulated fleet: all that were given the same time returned in the same second. */
  test.each([
    [4_000, 4_000, 8_000],
    [20_000, 20_000, 35_000],
    [3_600_000, 30_000, 45_000],
  ])('that was requested, %i ms, is drawn from %i to %i ms', (askedMs, leastMs, mostMs) => {
    expect(backoffMs(policy, 1, () => 0, askedMs)).toBe(leastMs);
    expect(backoffMs(policy, 1, () => 1, askedMs)).toBe(mostMs);
  });
});
