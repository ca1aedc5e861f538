import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { isWithin } from '../../../../src/system/time/daily-window.ts';
import { initialState } from '../../../../src/update/journal/state.ts';
import type { Installed, UpdateState, VersionEntry, VersionRef } from '../../../../src/update/journal/state.ts';
import { planUpdate } from '../../../../src/update/policy/plan.ts';
import type { PlanInput } from '../../../../src/update/policy/plan.ts';
import { entryWith } from '../version-entries.ts';

const DAY_MS = 86_400_000;
const offered = { id: '2', name: 'two' };
const calm: PlanInput = {
  policy: { attempts: 3, window: undefined, quarantineMs: 30 * DAY_MS },
  minuteOfDay: 720,
  nowMs: 0,
  meteredLink: undefined,
  configProblem: undefined,
  manual: false,
  force: false,
};

function installed(overrides: Partial<Installed> = {}): Installed {
  return {
    version: { id: '1', name: 'one' },
    digest: 'sha256:1',
    provides: {},
    payloads: [],
    slot: 'A',
    at: '',
    ...overrides,
  };
}

function failedTimes(failed: number, gaveUp = 0, looks = 0): UpdateState {
  return { ...initialState, versions: [{ version: offered, begun: failed, failed, gaveUp, looks }] };
}

function blocked(version: VersionRef, at = ''): VersionEntry {
  const bad = { code: 'unhealthy', reason: 'it was not healthy', at };
  return entryWith({ version, digest: `sha256:${version.id}`, bad });
}

describe('a plan', () => {
  test('installs what is offered where nothing is installed', () => {
    expect(planUpdate(initialState, offered, calm)).toEqual({ kind: 'install', version: offered });
  });

  test('reports that there is no offer', () => {
    expect(planUpdate(initialState, undefined, calm)).toEqual({ kind: 'nothing-offered' });
  });

  test('is up to date by the id of the version, whatever its name', () => {
    const state = { ...initialState, installed: installed({ version: { id: '2', name: 'renamed' } }) };
    expect(planUpdate(state, offered, calm)).toEqual({ kind: 'up-to-date', version: 'two' });
  });

  test('recognises a file that was installed by hand by the name of the version', () => {
    const state = { ...initialState, installed: installed({ version: { name: 'two' } }) };
    expect(planUpdate(state, offered, calm)).toEqual({ kind: 'reconcile', version: offered });
  });

  test('keeps a manually installed version until the service offers another one', () => {
    const state = { ...initialState, installed: installed({ version: { name: 'mine' }, overrides: '2' }) };
    expect(planUpdate(state, offered, calm)).toMatchObject({ kind: 'deferred', code: 'manual-override' });
    expect(planUpdate(state, { id: '3', name: 'three' }, calm)).toMatchObject({ kind: 'install' });
  });

  test('defers a quarantined version, unless an operator overrides it', () => {
    const state = { ...initialState, versions: [blocked(offered)] };
    expect(planUpdate(state, offered, calm)).toMatchObject({ code: 'quarantined', reason: /it was not healthy/ });
    expect(planUpdate(state, offered, { ...calm, force: true })).toMatchObject({ kind: 'install' });
    expect(planUpdate(state, { id: '3', name: 'three' }, calm)).toMatchObject({ kind: 'install' });
  });

  test('discards a version after a number of failures that waiting cannot fix', () => {
    expect(planUpdate(failedTimes(2, 2), offered, { ...calm, manual: true })).toMatchObject({ kind: 'install' });
    expect(planUpdate(failedTimes(3, 3), offered, { ...calm, manual: true })).toMatchObject({
      code: 'attempts-exhausted',
    });
  });

  // Regression: fifteen power losses in downloads blocked a version for ever.
  test('tries a version again, later and later, that is begun and cut off again and again', () => {
    const begun = (times: number, looks: number): UpdateState => ({
      ...initialState,
      versions: [{ version: offered, begun: times, failed: 0, gaveUp: 0, looks }],
    });
    expect(planUpdate(begun(4, 0), offered, calm)).toMatchObject({ kind: 'install' });
    expect(planUpdate(begun(6, 0), offered, calm)).toMatchObject({
      code: 'retry-backoff',
      reason: /was interrupted 6 times/,
    });
    expect(planUpdate(begun(100, 94), offered, calm)).toMatchObject({ code: 'retry-backoff' });
    expect(planUpdate(begun(100, 95), offered, calm)).toMatchObject({ kind: 'install' });
  });

  test('blocks a failed release until agent unblock if no time is set, but not one that never ran', () => {
    const since = '2027-01-01T00:00:00.000Z';
    const later = { ...calm, policy: { attempts: 3, window: undefined }, nowMs: Date.parse(since) + 31 * DAY_MS };
    const usedUp = entryWith({ version: offered, begun: 3, failed: 3, gaveUp: 3, since });
    expect(planUpdate({ ...initialState, versions: [usedUp] }, offered, later)).toMatchObject({ kind: 'install' });
    const state = { ...initialState, versions: [blocked(offered, since)] };
    expect(planUpdate(state, offered, later)).toMatchObject({ code: 'quarantined' });
  });

  test('tries a version once more when its block has lasted for the configured time', () => {
    const since = '2027-01-01T00:00:00.000Z';
    const endsMs = Date.parse(since) + 30 * DAY_MS;
    const usedUp = entryWith({ version: offered, begun: 3, failed: 3, gaveUp: 3, since });
    for (const entry of [blocked(offered, since), usedUp]) {
      const state = { ...initialState, versions: [entry] };
      expect(planUpdate(state, offered, { ...calm, nowMs: endsMs - 1 })).toMatchObject({ kind: 'deferred' });
      expect(planUpdate(state, offered, { ...calm, nowMs: endsMs })).toMatchObject({ kind: 'install' });
    }
  });

  test('resumes a forced version, and no other', () => {
    const attempt = { id: 'a1', version: offered, by: 'service', startedAt: '', forced: true } as const;
    const state: UpdateState = {
      ...initialState,
      versions: [blocked(offered), blocked({ id: '3', name: 'three' })],
      phase: { kind: 'staging', attempt, slot: 'B' },
    };
    expect(planUpdate(state, offered, calm)).toMatchObject({ kind: 'install' });
    expect(planUpdate(state, { id: '3', name: 'three' }, calm)).toMatchObject({ code: 'quarantined' });
  });

  test.each([
    [1, 0],
    [2, 1],
    [3, 3],
    [4, 7],
    [50, 95],
  ])('after %i failures in a row skips %i checks, but never a manual one', (failures, looks) => {
    const failed = (skipped: number): UpdateState => failedTimes(failures, 0, skipped);
    expect(planUpdate(failed(looks), offered, calm).kind).toBe('install');
    const before = planUpdate(failed(Math.max(0, looks - 1)), offered, calm);
    expect(before.kind).toBe(looks > 0 ? 'deferred' : 'install');
    expect(planUpdate(failed(0), offered, { ...calm, manual: true }).kind).toBe('install');
  });

  test('waits for the maintenance window, and for a clock that can tell it', () => {
    const policy = { ...calm.policy, window: { fromMinute: 120, toMinute: 300 } };
    const at = (minuteOfDay: number | undefined): unknown =>
      planUpdate(initialState, offered, { ...calm, policy, minuteOfDay });
    expect(at(120)).toMatchObject({ kind: 'install' });
    expect(at(300)).toMatchObject({ code: 'outside-window', reason: /02:00 and 05:00/ });
    expect(at(undefined)).toMatchObject({ code: 'clock-unsynchronized' });
  });
});

test('a window and its complement divide the day', () => {
  const minute = fc.integer({ min: 0, max: 1439 });
  fc.assert(
    fc.property(minute, minute, minute, (fromMinute, toMinute, now) => {
      fc.pre(fromMinute !== toMinute);
      const inside = isWithin({ fromMinute, toMinute }, now);
      expect(isWithin({ fromMinute: toMinute, toMinute: fromMinute }, now)).toBe(!inside);
    }),
  );
});
