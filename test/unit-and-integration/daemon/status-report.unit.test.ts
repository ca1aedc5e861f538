import { describe, expect, test } from 'vitest';

import { renderStatus } from '../../../src/cli/screen/pages/render-rows.ts';
import { checkReport } from '../../../src/daemon/status/check-report.ts';
import type { StatusInput } from '../../../src/daemon/status/gather-status.ts';
import { statusReport } from '../../../src/daemon/status/status-report.ts';
import { initialState } from '../../../src/update/journal/state.ts';
import type { Phase, PhaseOf } from '../../../src/update/journal/state.ts';
import { planUpdate } from '../../../src/update/policy/plan.ts';
import { calmSurroundings as around } from './calm-surroundings.ts';

const trial: PhaseOf<'trial'> = {
  kind: 'trial',
  attempt: { id: '1', version: { id: 'v2', name: 'two' }, by: 'service', startedAt: '2026-03-01T12:00:00.000Z' },
  slot: 'B',
  firmware: {
    digest: 'sha256:00',
    provides: {},
    payloads: [{ target: 'gateway', kind: 'slots', sizeBytes: 1, digest: 'sha256:00' }],
  },
  trialsLeft: 1,
  bootId: 'this',
  rebootByHand: false,
  judgements: 0,
  approved: false,
  boards: {},
};

// Regression: state "ok", "Last update none yet", and a version that had failed its trial could be installed.
test('a lost journal is reported until a version is installed', () => {
  const installed = { ...trial.firmware, version: { name: 'one' }, slot: 'A', at: '2026-03-01T12:00:00.000Z' } as const;
  const lost = statusReport({ ...initialState, forgot: true }, around);
  expect(lost).toMatchObject({ state: 'needs-attention', problems: ['journal-lost'] });
  const page = { columns: 300, paint: (_: unknown, text: string) => text, nowMs: 0, localOffset: () => 0 };
  const text = renderStatus(lost, page);
  expect(text).toMatch(/State .*earlier results and blocked versions are unknown/);
  expect(text).toMatch(/To do .*agent history/);
  expect(text).toMatch(/Last update +unknown/);
  expect(statusReport({ ...initialState, forgot: true, installed }, around)).toMatchObject({
    state: 'ok',
    problems: [],
  });
});

describe('an armed update', () => {
  const state = { ...initialState, phase: trial };

  // Regression: "B is not bootable (bad, primary)", and "to start it: agent reboot", of a slot that any reboot starts.
  // Later "next to boot, once, on trial (bad, primary)": words of a bootloader that contradict the rest.
  test('is next to boot, though its bootloader does not call it bootable before it is committed', () => {
    const slots = { A: { bootable: true, detail: 'good' }, B: { bootable: false, detail: 'bad, primary' } };
    const boot = { primary: 'B', onTrial: { A: false, B: true }, committed: { A: false, B: false }, slots } as const;
    expect(statusReport(state, { ...around, boot })).toMatchObject({
      slots: { B: 'next to boot, once, on trial' },
      slotStates: { A: { bootsNext: false }, B: { bootable: false, bootsNext: true } },
    });
    const disarmed = statusReport(state, { ...around, boot: { ...boot, primary: 'A' } });
    expect(disarmed.slotStates).toMatchObject({ A: { bootsNext: true }, B: { bootsNext: false } });
    expect(statusReport(initialState, { ...around, boot }).slotStates).toMatchObject({ B: { bootsNext: false } });
  });

  test('is staged until its slot runs', () => {
    expect(statusReport(state, around)).toMatchObject({
      phase: 'staged',
      idleReason: 'two is staged in slot B',
    });
  });

  // Regression: "the agent waits until 03:00" for an update that an operator had armed, and the next power loss
  // started.
  test.each([
    ['B', undefined],
    ['A', { reason: 'it opens at 02:00' }],
  ] as const)('waits for no window where slot %s boots next: %j', (primary, told) => {
    const rebootWait = { code: 'outside-reboot-window', reason: 'it opens at 02:00', untilMs: undefined } as const;
    const slot = { bootable: true, detail: '' };
    const boot = {
      primary,
      slots: { A: slot, B: slot },
      onTrial: { A: false, B: true },
      committed: { A: false, B: false },
    };
    expect(statusReport(state, { ...around, boot, rebootDeferral: rebootWait }).rebootDeferral).toEqual(told);
  });

  // Regression: "running on trial; not bootable (bad)".
  test('on trial shows the slot that boots next without a commit', () => {
    const slot = { bootable: true, detail: 'enabled in the boot environment' };
    const slots = { A: slot, B: { bootable: false, detail: 'disabled in the boot environment' } };
    const boot = { primary: 'A', onTrial: { A: false, B: true }, committed: { A: true, B: false }, slots } as const;
    expect(statusReport(state, { ...around, booted: 'B', boot }).slots).toEqual({
      A: 'next to boot',
      B: 'without a commit, slot A boots next',
    });
  });

  // Regression: "gateway-1.4.1 is staged in slot B" after `agent rollback --no-reboot`.
  test('by a rollback is called a rollback', () => {
    const rollback = { ...trial, attempt: { ...trial.attempt, by: 'rollback' as const } };
    expect(statusReport({ ...initialState, phase: rollback }, around).idleReason).toBe(
      'the rollback to two is staged in slot B',
    );
  });

  test('is on trial when its slot runs', () => {
    expect(statusReport(state, { ...around, booted: 'B' })).toMatchObject({
      phase: 'trial',
      idleReason: 'two is on trial in slot B',
      running: { version: 'two', slot: 'B', isOnTrial: true },
    });
  });

  test('is on trial immediately if only boards are new', () => {
    const firmware = { ...trial.firmware, payloads: [{ ...trial.firmware.payloads[0], kind: 'mcu' as const }] };
    expect(statusReport({ ...state, phase: { ...trial, firmware } as typeof trial }, around).phase).toBe('trial');
  });
});

// Regression: "v0 in slot A", "v1 is being staged into slot A", "v1 is on trial in slot A" of a system that is exchanged by packages.
describe('a gateway without slots', () => {
  const payload = { target: 'agent', kind: 'package', sizeBytes: 1, digest: 'sha256:00' } as const;
  const firmware = { ...trial.firmware, payloads: [payload] };
  const onTrial = { ...trial, slot: 'A', firmware } as const;
  const installed = { ...firmware, version: trial.attempt.version, slot: 'A', at: '' } as const;
  const alone = { ...around, booted: undefined };

  test.each<[Phase, Partial<StatusInput>, string]>([
    [onTrial, {}, 'two is on trial'],
    [{ ...onTrial, kind: 'staged' }, {}, 'two is staged'],
    [{ kind: 'staging', attempt: trial.attempt, slot: 'A' }, {}, 'the download of two was interrupted'],
    [
      { kind: 'staging', attempt: trial.attempt, slot: 'A' },
      { activity: { process: 'the daemon' } },
      'two is being staged',
    ],
    [{ kind: 'lost' }, {}, 'the journal of updates cannot be read; the installed version stays'],
  ])('is told of $kind without one', (phase, change, told) => {
    const report = statusReport({ ...initialState, phase, installed, earlier: [installed] }, { ...alone, ...change });
    expect(report.idleReason).toBe(told);
    expect(JSON.stringify(report)).not.toMatch(/slot/i);
  });

  test('has none in the result of a check either', () => {
    const look = { offered: undefined, plan: { kind: 'nothing-offered' } } as const;
    expect(JSON.stringify(checkReport({ ...initialState, installed }, look))).not.toContain('slot');
  });
});

test('shows the progress of a signed artifact, as of an image', () => {
  const wire = { offset: 700, validator: 'it', totalBytes: 1_000 };
  const image = { sizeBytes: 500, digest: 'sha256:00' };
  const artifact = {
    head: '',
    payload: 0,
    member: { sizeBytes: 700, leftBytes: 200 },
    file: { name: 'rootfs', sizeBytes: 650 },
    whole: [],
  };
  const checkpoint = { wire, encoding: 'base64', carry: '', image, artifact } as const;
  const phase = { kind: 'staging', attempt: trial.attempt, slot: 'B', checkpoint } as const;
  expect(statusReport({ ...initialState, phase }, around).downloaded).toEqual({ bytes: 700, totalBytes: 1_000 });
});

test('shows an image with a name of its own as the factory version', () => {
  const { firmware, attempt } = trial;
  const installed = { ...firmware, version: attempt.version, slot: 'A', at: '', factory: true } as const;
  expect(statusReport({ ...initialState, installed }, around).installed).toMatchObject({ factory: true });
});

describe('why nothing is being installed', () => {
  test.each<[string, Partial<StatusInput>, string]>([
    ['before the first look', {}, 'no update check since the agent started'],
    [
      'after a first look that failed',
      { service: { ...around.service, lastError: 'refused' } },
      'no update check has succeeded since the agent started',
    ],
    ['without a daemon', { daemon: false }, 'the daemon is not running'],
    ['of a silent daemon', { daemon: 'unresponsive' }, 'the daemon is not responding'],
    ['where nothing can be installed', { obstacle: 'no targets' }, 'no targets'],
    [
      'after a look',
      { lastLook: { offered: undefined, plan: { kind: 'nothing-offered' } } },
      'the service offers no version',
    ],
  ])('%s', (_, change, told) => {
    expect(statusReport(initialState, { ...around, ...change }).idleReason).toBe(told);
  });
});

// Regression: the code was `update-available`, and the reason that the version can be installed.
test('shows a deferral by before_install as the reason and as the code', () => {
  const hookPause = { hook: 'before_install', firmware: 'v2', reason: 'before_install defers', leftMs: 1 } as const;
  const offered = { id: 'v2', name: 'two' };
  const idleOf = (hook: 'before_install' | 'before_reboot', plan: object) => {
    const lastLook = { offered, plan: { kind: 'install', version: offered, ...plan } } as const;
    return statusReport(initialState, { ...around, lastLook, hookPause: { ...hookPause, hook } });
  };
  const deferred = { idleCode: 'hook-deferred', idleReason: 'two is deferred: before_install defers' };
  expect(idleOf('before_install', {})).toMatchObject(deferred);
  for (const [hook, plan] of [['before_reboot', {}] as const, ['before_install', { trustList: true }] as const])
    expect(idleOf(hook, plan)).toMatchObject({ idleCode: 'update-available' });
});

// Regression: "2.0.0 would be installed" while it was on trial.
test('what is staged or on trial already would not be installed once more', () => {
  const state = { ...initialState, phase: trial };
  const look = (id: string) => {
    const offered = { id, name: id };
    return { offered, plan: { kind: 'install', version: offered } } as const;
  };
  expect(checkReport(state, look('v2'))).toMatchObject({
    plan: 'deferred',
    reason: 'two is on trial in slot B',
  });
  expect(checkReport(state, look('v3'))).toMatchObject({ plan: 'install' });
});

// Regression: "would be installed", and nothing else, of a version that had been refused a minute before.
test('shows the failure of the last attempt with its version, and with no other', () => {
  const last = { attempt: '1', version: 'v2', outcome: 'refused', code: 'not-signed', reason: 'so', at: '' } as const;
  const check = (id: string, change: object = {}) => {
    const offered = { id, name: id };
    const look = { offered, plan: { kind: 'install', version: offered } } as const;
    return checkReport({ ...initialState, lastOutcome: { ...last, ...change } }, look);
  };
  expect(check('v2')).toMatchObject({ plan: 'install', lastAttempt: last });
  for (const report of [check('v3'), check('v2', { outcome: 'installed' }), check('v2', { by: 'file' })])
    expect(report).not.toHaveProperty('lastAttempt');
});

// Regression: "2 can be installed" of a release that had been refused.
test.each([
  [0, 'two is tried again at the next check'],
  [1, 'two is tried again at the next check (attempt 2 of 3)'],
  [3, 'two is tried again at the next check'],
])('shows that a release is tried again after %i failures that count', (gaveUp, told) => {
  const offered = { id: 'v2', name: 'two' };
  const state = { ...initialState, versions: [{ version: offered, begun: 3, failed: 3, gaveUp, looks: 3 }] };
  const input = { policy: { attempts: 3, window: undefined }, manual: false, force: gaveUp > 2, nowMs: 0 };
  const facts = { minuteOfDay: 0, meteredLink: undefined, configProblem: undefined };
  const lastLook = { offered, plan: planUpdate(state, offered, { ...input, ...facts }) };
  expect(statusReport(state, { ...around, lastLook }).idleReason).toBe(told);
  expect(checkReport(state, lastLook).reason).toBe(told.replace(' at the next check', ''));
});

// Regression: "Slowed the download to at most 2.0 MiB/s" of a gateway that downloads nothing.
test.each([
  [undefined, false],
  [{ process: 'the daemon', operation: 'update', phase: 'staging' }, true],
  [{ process: 'agent --update-now (process 7)' }, true],
  [{ process: 'the daemon', operation: 'update', phase: 'health' }, false],
  [{ process: 'the daemon', operation: 'flash', phase: 'flashing' }, false],
] as const)('with %j a download that is slowed is told: %j', (activity, told) => {
  const throttle = { bytesPerSecond: 1024, untilMs: undefined };
  const report = statusReport(initialState, { ...around, activity, throttle });
  expect(report.throttle).toEqual(told ? { bytesPerSecond: 1024 } : undefined);
});

// Regression: shown as interrupted, and as resumed at the next check, during a hold and outside the window.
describe('an interrupted update that is deferred', () => {
  const phase = { kind: 'staging', attempt: trial.attempt, slot: 'B' } as const;
  const standstill = { since: '2026-03-01T12:00:00.000Z' };
  const plan = {
    kind: 'deferred',
    version: 'two',
    code: 'outside-window',
    reason: 'installing may begin at 02:00',
  } as const;

  test.each<[string, object, Partial<StatusInput>, object]>([
    [
      'by nothing',
      {},
      {},
      { state: 'interrupted', idleCode: 'interrupted', toDo: { isNeeded: true, operation: 'update' } },
    ],
    ['by a hold', { standstill }, {}, { state: 'on-hold', idleCode: 'on-hold', toDo: { operation: 'resume' } }],
    [
      'by a closed window',
      {},
      { lastLook: { offered: { id: 'v2', name: 'two' }, plan } },
      { idleCode: 'outside-window', idleReason: 'two is deferred: installing may begin at 02:00' },
    ],
    ['by its configuration', {}, { isConfigUnusable: true }, { state: 'broken', idleCode: 'config-unusable' }],
  ])('%s is reported with that reason', (_, state, change, told) => {
    expect(statusReport({ ...initialState, phase, ...state }, { ...around, ...change })).toMatchObject(told);
  });
});

// Regression: `agent status` suggested no version to unblock after the service had renamed the blocked one.
test('of two blocked releases, the one that the service offers is the one to unblock', () => {
  const bad = { code: 'unhealthy', reason: 'it failed', at: '2026-03-01T12:00:00.000Z' };
  const versions = ['1', '2'].map((id) => ({
    version: { id, name: `${id}.0.0` },
    digest: `sha256:${id}`,
    begun: 1,
    failed: 0,
    gaveUp: 0,
    bad,
  }));
  const plan = { kind: 'deferred', version: '2.0.0', code: 'quarantined', reason: 'it is blocked' } as const;
  const lastLook = { offered: { id: '2', name: '2.0.0' }, plan };
  const report = statusReport({ ...initialState, versions }, { ...around, lastLook });
  expect(report.quarantine.map(({ isOffered }) => isOffered)).toEqual([undefined, true]);
  expect(report.toDo).toMatchObject({ operation: 'unblock', version: '2.0.0' });
});

describe('the content of the slots', () => {
  const slots = { A: { bootable: true, detail: 'good' }, B: { bootable: false, detail: 'bad' } };
  const boot = { primary: 'A', onTrial: { A: false, B: false }, committed: { A: true, B: false }, slots } as const;
  const record = { digest: 'sha256:00', sizeBytes: 1, version: '3.0.0', at: '' };
  const seen = { at: '2026-03-01T12:00:00.000Z' };

  test.each<[string, object, object]>([
    [
      'the factory image beside a failed version',
      { slots: { A: { records: {}, seen }, B: { records: { gateway: record } } } },
      { A: { isFactory: true }, B: { version: '3.0.0' } },
    ],
    [
      'an update that is being written',
      { phase: { kind: 'staging', attempt: trial.attempt, slot: 'B' } },
      { B: { isPartial: true } },
    ],
    ['a staged version', { phase: { ...trial, kind: 'staged' } }, { B: { version: 'two' } }],
    [
      'nothing known, after the journal was lost',
      { forgot: true, slots: { A: { records: {}, seen }, B: { records: {} } } },
      { A: { bootable: true, bootsNext: true, version: undefined }, B: { bootable: false, bootsNext: false } },
    ],
  ])('is %s', (_, state, told) => {
    expect(statusReport({ ...initialState, ...state }, { ...around, boot }).slotStates).toMatchObject(told);
  });

  test('names the running version first in JSON', () => {
    const report = statusReport({ ...initialState, slots: { A: { records: {}, seen }, B: { records: {} } } }, around);
    expect(JSON.stringify(report)).toMatch(/^\{"running":\{"slot":"A","isOnTrial":false,"isFactory":true\},"state"/);
  });
});
