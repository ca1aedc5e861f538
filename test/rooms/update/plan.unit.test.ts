import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { isWithin, planUpdate } from '../../../src/update/plan.ts';
import type { Circumstances } from '../../../src/update/plan.ts';
import { initialState } from '../../../src/update/state.ts';
import type { Installed, UpdateState } from '../../../src/update/state.ts';

const offered = { id: '2', name: 'two' };
const calm: Circumstances = {
  policy: { attempts: 3, window: undefined },
  minuteOfDay: 720,
  looksSinceFailure: 0,
  manual: false,
  force: false,
};

function installed(overrides: Partial<Installed> = {}): Installed {
  return { version: { id: '1', name: 'one' }, digest: 'sha256:1', provides: {}, payloads: [], at: '', ...overrides };
}

function failedTimes(failed: number, gaveUp = 0): UpdateState {
  return { ...initialState, tries: { versionId: '2', begun: failed, failed, gaveUp } };
}

describe('a plan', () => {
  test('installs what is offered where nothing is installed', () => {
    expect(planUpdate(initialState, offered, calm)).toEqual({ kind: 'install', version: offered });
  });

  test('says that nothing is offered', () => {
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

  test('keeps what was installed by hand until the service names another version', () => {
    const state = { ...initialState, installed: installed({ version: { name: 'mine' }, overrides: '2' }) };
    expect(planUpdate(state, offered, calm)).toMatchObject({ kind: 'held-back', code: 'installed-by-hand' });
    expect(planUpdate(state, { id: '3', name: 'three' }, calm)).toMatchObject({ kind: 'install' });
  });

  test('holds back a quarantined version, unless a person says otherwise', () => {
    const bad = { digest: 'sha256:2', version: offered, code: 'unhealthy', reason: 'it was not healthy', at: '' };
    const state = { ...initialState, quarantine: [bad] };
    expect(planUpdate(state, offered, calm)).toMatchObject({ code: 'quarantined', reason: /it was not healthy/ });
    expect(planUpdate(state, offered, { ...calm, force: true })).toMatchObject({ kind: 'install' });
    expect(planUpdate(state, { id: '3', name: 'three' }, calm)).toMatchObject({ kind: 'install' });
  });

  test('gives a version up after so many failures that waiting cannot cure', () => {
    expect(planUpdate(failedTimes(2, 2), offered, { ...calm, manual: true })).toMatchObject({ kind: 'install' });
    expect(planUpdate(failedTimes(3, 3), offered, { ...calm, manual: true })).toMatchObject({
      code: 'attempts-used-up',
    });
  });

  test('gives a version up that is begun again and again and never ends', () => {
    const state = { ...initialState, tries: { versionId: '2', begun: 15, failed: 0, gaveUp: 0 } };
    expect(planUpdate(state, offered, calm)).toMatchObject({ code: 'attempts-used-up' });
  });

  test.each([
    [1, 0],
    [2, 1],
    [3, 3],
    [4, 7],
    [50, 95],
  ])('after %i failures in a row skips %i looks, but never a person', (failures, looks) => {
    const state = failedTimes(failures);
    const after = (looksSinceFailure: number): string =>
      planUpdate(state, offered, { ...calm, looksSinceFailure }).kind;
    expect(after(looks)).toBe('install');
    expect(after(Math.max(0, looks - 1))).toBe(looks > 0 ? 'held-back' : 'install');
    expect(planUpdate(state, offered, { ...calm, manual: true }).kind).toBe('install');
  });

  test('waits for the maintenance window, and for a clock that can tell it', () => {
    const policy = { attempts: 3, window: { fromMinute: 120, toMinute: 300 } };
    const at = (minuteOfDay: number | undefined): unknown =>
      planUpdate(initialState, offered, { ...calm, policy, minuteOfDay });
    expect(at(120)).toMatchObject({ kind: 'install' });
    expect(at(300)).toMatchObject({ code: 'outside-window', reason: /02:00 and 05:00/ });
    expect(at(undefined)).toMatchObject({ code: 'clock-not-set' });
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
