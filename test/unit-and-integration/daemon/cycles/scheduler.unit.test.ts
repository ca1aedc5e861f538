import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { Scheduler } from '../../../../src/daemon/cycles/scheduler.ts';
import type { CycleResult } from '../../../../src/daemon/cycles/scheduler.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const firstMs = 5 * MINUTE_MS;
/** Each full hour; messages at most each ten minutes. */
const hourly = {
  schedule: (nowMs: number) => (Math.floor(nowMs / HOUR_MS) + 1) * HOUR_MS,
  turn: (nowMs: number) => nowMs + 7 * MINUTE_MS,
  wakeLimitMs: 10 * MINUTE_MS,
};

function newAgenda(): Scheduler {
  return new Scheduler(firstMs, hourly);
}

/** A scheduler after a recovery at midnight. */
function settled(how: CycleResult = 'settled'): Scheduler {
  const agenda = newAgenda();
  agenda.beginRound(0);
  agenda.endRound(how, 0);
  return agenda;
}

describe('the agenda', () => {
  test('begins with the recovery of an interrupted update', () => {
    const agenda = newAgenda();
    agenda.askForReload();
    agenda.wake(0);
    expect(agenda.next.what).toBe('recover');
    expect(agenda.next.atMs).toBeLessThan(0);
  });

  test('checks soon after that, and then on schedule, whether the check succeeds or fails', () => {
    const agenda = settled();
    expect(agenda.next).toEqual({ what: 'check', atMs: firstMs });
    for (const [index, how] of (['looked', 'failed'] as const).entries()) {
      const nowMs = agenda.next.atMs;
      agenda.beginRound(nowMs);
      agenda.endRound(how, nowMs + MINUTE_MS);
      expect(agenda.next).toEqual({ what: 'check', atMs: (index + 1) * HOUR_MS });
    }
  });

  // Regression: a board whose writing was interrupted waited for the next check, perhaps for a day.
  test('returns soon, with growing pauses, while a board is half written, and still counts its checks', () => {
    const agenda = settled('looked');
    let nowMs = agenda.next.atMs;
    for (const pause of [1, 2, 4]) {
      agenda.beginRound(nowMs);
      agenda.endRound('looked', nowMs, true);
      expect(agenda.next).toEqual({ what: 'recover', atMs: nowMs + pause * MINUTE_MS });
      expect(agenda.looks.lastSuccessAtMs).toBe(nowMs);
      nowMs = agenda.next.atMs;
    }
    agenda.beginRound(nowMs);
    agenda.endRound('looked', nowMs);
    expect(agenda.next).toEqual({ what: 'check', atMs: 2 * HOUR_MS });
  });

  test('checks while work is half done if a check is due, and loses no message to a recovery', () => {
    const agenda = settled('looked');
    agenda.endRound('unsettled', 0);
    expect(agenda.next).toEqual({ what: 'recover', atMs: MINUTE_MS });
    agenda.beginRound(MINUTE_MS, 'recover');
    agenda.wake(MINUTE_MS);
    agenda.endRound('unsettled', MINUTE_MS);
    expect(agenda.next).toEqual({ what: 'check', atMs: 3 * MINUTE_MS });
    agenda.beginRound(3 * MINUTE_MS);
    agenda.endRound('looked', 3 * MINUTE_MS, true);
    expect(agenda.next.what).toBe('recover');
  });

  test('returns once at a deferred time of day, before the schedule', () => {
    const agenda = settled('looked');
    agenda.retryAt(30 * MINUTE_MS);
    expect(agenda.next).toEqual({ what: 'check', atMs: 30 * MINUTE_MS });
    expect(agenda.checkAtMs).toBe(HOUR_MS);
    agenda.beginRound(30 * MINUTE_MS);
    agenda.endRound('looked', 31 * MINUTE_MS);
    expect(agenda.next).toEqual({ what: 'check', atMs: HOUR_MS });
  });

  /**
   * Regression in a simulated fleet: every gateway checked within five minutes after its clock had been set forward.
   */
  test('keeps the splay of a check that a forward clock change skipped', () => {
    const agenda = settled('looked');
    expect(agenda.wakeUp(HOUR_MS)).toBe(true);
    expect(agenda.wakeUp(5 * HOUR_MS)).toBe(false);
    expect(agenda.next).toEqual({ what: 'check', atMs: 5 * HOUR_MS + 7 * MINUTE_MS });
    expect(agenda.wakeUp(agenda.next.atMs)).toBe(true);
  });

  test.each(['a message', 'a window', 'what did not settle'])('makes %s wait for no turn', (what) => {
    const agenda = settled(what === 'what did not settle' ? 'unsettled' : 'looked');
    if (what === 'a message') agenda.wake(0);
    if (what === 'a window') agenda.retryAt(30 * MINUTE_MS);
    expect(agenda.wakeUp(5 * HOUR_MS)).toBe(true);
  });

  test('counts failed checks since the last success', () => {
    const agenda = settled();
    expect(agenda.looks).toEqual({ nextAtMs: firstMs, lastSuccessAtMs: undefined, consecutiveFailures: 0 });
    for (const end of ['looked', 'failed', 'unsettled', 'failed'] as const) agenda.endRound(end, HOUR_MS);
    expect(agenda.looks).toEqual({ nextAtMs: 2 * HOUR_MS, lastSuccessAtMs: HOUR_MS, consecutiveFailures: 2 });
    agenda.endRound('looked', 2 * HOUR_MS);
    expect(agenda.looks).toEqual({ nextAtMs: 3 * HOUR_MS, lastSuccessAtMs: 2 * HOUR_MS, consecutiveFailures: 0 });
  });

  test('does not look while the machine reboots, but again if it still runs later', () => {
    const agenda = settled('rebooting');
    agenda.wake(0);
    expect(agenda.next).toEqual({ what: 'check', atMs: 5 * MINUTE_MS });
  });

  test('tries again what it could not settle, later and later, until it has settled', () => {
    const agenda = settled('unsettled');
    const pauses = Array.from({ length: 8 }, () => {
      const { atMs } = agenda.next;
      agenda.beginRound(atMs);
      agenda.endRound('unsettled', atMs);
      return agenda.next.atMs - atMs;
    });
    expect(pauses.map((ms) => ms / MINUTE_MS)).toEqual([2, 4, 8, 16, 32, 60, 60, 60]);
    agenda.endRound('looked', 0);
    agenda.endRound('unsettled', 0);
    expect(agenda.next.atMs).toBe(MINUTE_MS);
  });

  test('a failed look ends no growing pause, for nothing was settled by it', () => {
    const agenda = settled('unsettled');
    agenda.endRound('failed', 0);
    agenda.endRound('unsettled', 0);
    expect(agenda.next.atMs).toBe(2 * MINUTE_MS);
  });

  test('reads the configuration between cycles, and checks immediately afterwards', () => {
    for (const agenda of [settled(), settled('unsettled'), settled('rebooting')]) {
      agenda.askForReload();
      expect(agenda.next.what).toBe('reload');
      agenda.beginReload();
      agenda.follow({ ...hourly, schedule: () => 7 * HOUR_MS });
      expect(agenda.next.what).toBe('check');
      expect(agenda.next.atMs).toBeLessThan(0);
      agenda.endRound('looked', 0);
      expect(agenda.next).toEqual({ what: 'check', atMs: 7 * HOUR_MS });
    }
  });

  test('a request that comes while the configuration is read is not lost', () => {
    const agenda = settled();
    agenda.askForReload();
    agenda.beginReload();
    agenda.askForReload();
    expect(agenda.next.what).toBe('reload');
  });

  test('a message triggers an earlier check, and concurrent requests share it', () => {
    const agenda = settled();
    expect(agenda.wake(MINUTE_MS)).toBe(MINUTE_MS);
    expect(agenda.wake(MINUTE_MS)).toBeUndefined();
    expect(agenda.next).toEqual({ what: 'check', atMs: MINUTE_MS });
    expect(agenda.checkAtMs).toBe(MINUTE_MS);
  });

  test('no message is lost: after each, a round begins within the limit, or after the pause that is on', () => {
    const steps = fc.array(
      fc.record({
        afterMs: fc.nat({ max: 20 * MINUTE_MS }),
        end: fc.constantFrom<CycleResult>('looked', 'failed', 'unsettled', 'rebooting'),
        isWoken: fc.boolean(),
      }),
      { maxLength: 40 },
    );
    fc.assert(
      fc.property(steps, (story) => {
        const agenda = settled();
        const lateMs: number[] = [];
        let nowMs = 0;
        let pausedUntilMs = 0;
        for (const { afterMs, end, isWoken } of story) {
          nowMs += afterMs;
          if (isWoken) {
            agenda.wake(nowMs);
            lateMs.push(agenda.next.atMs - Math.max(nowMs + hourly.wakeLimitMs, pausedUntilMs));
          }
          if (agenda.next.atMs > nowMs) continue;
          agenda.beginRound(nowMs, agenda.next.what);
          agenda.endRound(end, nowMs);
          pausedUntilMs = end === 'unsettled' || end === 'rebooting' ? agenda.next.atMs : 0;
        }
        expect(lateMs.filter((ms) => ms > 0)).toEqual([]);
      }),
    );
  });
});
