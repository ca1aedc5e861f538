import { describe, expect, test } from 'vitest';

import type { Config } from '../../../../src/config/config.ts';
import { isHalfDone } from '../../../../src/daemon/cycles/rounds.ts';
import { Liveness, TaskTimer } from '../../../../src/daemon/cycles/task-timer.ts';
import type { Wiring } from '../../../../src/daemon/wiring/wiring.ts';
import { silentLog } from '../../../../src/system/log/log.ts';
import { SteppedClock } from '../../../fakes/clock.ts';

const signal = new AbortController().signal;
const HOUR_MS = 3_600_000;

function wiringIn(kind: string, isHalfWritten = false): Wiring {
  const journal = { state: { phase: { kind }, named: { id: 'v1' } } };
  return { serialNumber: 'GW-1', journal, boards: { isHalfWritten: async () => isHalfWritten } } as unknown as Wiring;
}

test.each([
  ['idle', false, false],
  ['staged', false, false],
  ['trial', false, true],
  ['rolling-back', false, true],
  ['idle', true, true],
])('phase %s with a half-written board (%s) is half done: %s', async (phase, isWritten, expected) => {
  expect(await isHalfDone(wiringIn(phase, isWritten))).toBe(expected);
});

describe('an operation of a client that left something half done', () => {
  // Regression: with a nightly schedule, a board that came back after a minute had no program until the next night.
  // Later, the retry was an update check, which installed a release in the middle of the day.
  test('is followed by a recovery after a minute, and after two minutes if it is still half done', async () => {
    const clock = new SteppedClock(Date.UTC(2027, 0, 1, 12));
    const timer = new TaskTimer({ clock, log: silentLog, liveness: new Liveness(clock, HOUR_MS) });
    await timer.follow({ update: { schedule: '0 3 * * *', splayMs: 0 } } as Config, wiringIn('idle'));
    timer.agenda.beginRound(clock.nowMs());
    timer.agenda.endRound('looked', clock.nowMs());
    const beganMs = clock.nowMs();
    const due = timer.due(signal);
    timer.retrySoon();
    expect(timer.agenda.looks.retryAtMs).toBe(beganMs + 60_000);
    expect([await due, clock.nowMs() - beganMs]).toEqual(['recover', 60_000]);
    timer.agenda.beginRound(clock.nowMs(), 'recover');
    await timer.endCycle('settled', wiringIn('idle', true));
    expect([await timer.due(signal), clock.nowMs() - beganMs]).toEqual(['recover', 180_000]);
    timer.agenda.beginRound(clock.nowMs(), 'recover');
    await timer.endCycle('settled', wiringIn('idle'));
    expect([await timer.due(signal), clock.nowMs()]).toEqual(['check', Date.UTC(2027, 0, 2, 3)]);
    expect(timer.agenda.looks.retryAtMs).toBeUndefined();
  });
});
