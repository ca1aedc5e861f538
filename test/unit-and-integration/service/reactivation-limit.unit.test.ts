import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { ReactivationLimit } from '../../../src/service/reactivation-limit.ts';

describe('renewals of the key', () => {
  test('are permitted until there were too many in the window, and again when the oldest has left it', () => {
    const limit = new ReactivationLimit(3, 1_000);
    for (const at of [0, 100, 200]) {
      expect(limit.waitMs(at)).toBe(0);
      limit.note(at);
    }
    expect(limit.waitMs(300)).toBe(700);
    expect(limit.waitMs(999)).toBe(1);
    expect(limit.waitMs(1_000)).toBe(0);
    limit.note(1_000);
    expect(limit.waitMs(1_000)).toBe(100);
  });

  test('never exceed the count in any window', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(400), { maxLength: 200 }), (pauses) => {
        const limit = new ReactivationLimit(3, 1_000);
        const renewals: number[] = [];
        let now = 0;
        for (const pause of pauses) {
          now += pause;
          if (limit.waitMs(now) > 0) continue;
          limit.note(now);
          renewals.push(now);
        }
        const crowded = renewals.filter((at, index) => at - (renewals[index - 3] ?? -Infinity) < 1_000);
        expect(crowded).toEqual([]);
      }),
    );
  });
});
