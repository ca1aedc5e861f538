import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { RecoveryBackoff } from '../../../../src/daemon/cycles/recovery-backoff.ts';

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
/** Pauses of less than an hour: 1, 2, 4, 8, 16 and 32 minutes. */
const SHORT_PAUSES = 6;

/** Update cycles of a day in which recovery always fails; the program restarts at these times. */
function roundsInADay(startsMs: readonly number[]): number {
  const starts = [0, ...startsMs].toSorted((a, b) => a - b);
  let rounds = 0;
  for (const [index, startMs] of starts.entries()) {
    const endMs = starts[index + 1] ?? DAY_MS;
    const pause = new RecoveryBackoff();
    for (let nowMs = startMs; nowMs < endMs; nowMs += pause.nextMs()) rounds += 1;
  }
  return rounds;
}

describe('rounds that do not settle', () => {
  test('come later and later, up to an hour', () => {
    const pause = new RecoveryBackoff();
    const minutes = Array.from({ length: 9 }, () => pause.nextMs() / 60_000);
    expect(minutes).toEqual([1, 2, 4, 8, 16, 32, 60, 60, 60]);
  });

  // Regression: 2,880 in a day.
  test('are few in a day, and each start of the program adds a few more', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: DAY_MS - 1 }), { maxLength: 40 }), (startsMs) => {
        const bound = DAY_MS / HOUR_MS + (startsMs.length + 1) * (SHORT_PAUSES + 1);
        expect(roundsInADay(startsMs)).toBeLessThanOrEqual(bound);
      }),
    );
  });

  test('begin with a short pause again once one has settled', () => {
    fc.assert(
      fc.property(fc.array(fc.boolean()), (rounds) => {
        const pause = new RecoveryBackoff();
        for (const settles of rounds) {
          if (settles) pause.end();
          else pause.nextMs();
        }
        const failed = rounds.length - 1 - rounds.lastIndexOf(true);
        expect(pause.nextMs()).toBe(Math.min(HOUR_MS, 60_000 * 2 ** failed));
      }),
    );
  });
});
