import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import type { Page } from '../../../../src/cli/screen/page.ts';
import { renderStatus } from '../../../../src/cli/screen/pages/render-rows.ts';
import { plain } from '../../../../src/cli/screen/style.ts';
import { idleCodes, problems, stateExitCodes, stateOf } from '../../../../src/control/gateway-state.ts';
import { nextStepOf } from '../../../../src/control/presentation/next-step.ts';
import type { OutcomeReport, StatusReport } from '../../../../src/control/reports.ts';
import { noon } from '../fake-context.ts';
import { calmStatus } from '../fake-operations.ts';
import { rowOf } from '../row-of.ts';

const page: Page = { columns: 80, paint: plain, nowMs: noon, localOffset: () => 60 };

describe('the first line of the status', () => {
  const staged = { idleReason: '2 is staged in slot B', idleCode: 'staged', slotStates: undefined } as const;

  test.each<[Partial<StatusReport>, matter: string, toDo: string]>([
    [{ phase: 'staged', ...staged }, '2 is staged in slot B and starts at the next boot.', 'agent reboot'],
    [
      { phase: 'staged', ...staged, booted: undefined },
      '2 is staged in slot B and starts at the next check.',
      'wait for the next check',
    ],
    [
      {
        phase: 'staged',
        ...staged,
        slotStates: { A: { bootable: true, bootsNext: true }, B: { bootable: false, bootsNext: false } },
      },
      '2 is staged in slot B and starts when the agent reboots.',
      'agent reboot',
    ],
    [
      { phase: 'trial' },
      'It is committed if its health checks pass, else rolled back to gateway-1.4.1.',
      'nothing; to decide now: agent commit, or agent rollback',
    ],
    [
      { phase: 'trial', daemon: false },
      'The daemon is not running, so no health checks run; without a commit it is rolled back to gateway-1.4.1.',
      'systemctl start thing-agent, or decide now: agent commit, or agent rollback',
    ],
    [
      { phase: 'rolling-back', idleReason: '2 is being rolled back: x' },
      '2 is being rolled back: x.',
      'wait, or follow it: agent status --watch',
    ],
    [
      { phase: 'rolling-back', idleReason: '2 is being rolled back: x', daemon: false },
      '2 is being rolled back: x.',
      'finish the rollback: agent --update-now',
    ],
    [
      { phase: 'lost' },
      'The journal of updates could not be read, so an interrupted update is unknown.',
      'agent doctor',
    ],
    [{ phase: 'dreaming' }, 'Busy: dreaming.', 'nothing'],
    [
      { activity: { process: 'the daemon', operation: 'update', phase: 'checking' } },
      'Busy: checking for updates.',
      'nothing; to follow it: agent status --watch',
    ],
    [{ thingId: undefined }, 'The gateway is not activated yet.', 'agent activate'],
    [
      { thingId: undefined, service: { ...calmStatus.service, lastError: 'activate: nobody listens' } },
      'The gateway is not activated yet: activate: nobody listens.',
      'agent doctor',
    ],
    [
      { idleCode: 'not-asked', idleReason: 'no update check since the agent started' },
      'No update check since the agent started.',
      'nothing; to check and install now: agent --update-now',
    ],
    [
      { idleCode: 'outside-window', idleReason: '2 is deferred: installing may begin at 02:00' },
      '2 is deferred: installing may begin at 02:00.',
      'nothing; to install it anyway: agent --update-now --force',
    ],
  ])('with %j is: %s, and to do is: %s', (change, matter, toDo) => {
    const text = renderStatus({ ...calmStatus, ...change }, page);
    expect(rowOf('State', text)).toBe(`gateway-1.4.2 is running. ${matter}`);
    expect(rowOf('To do', text)).toBe(toDo);
  });

  test.each<[Partial<StatusReport>, string]>([
    [
      { running: { version: '2', slot: 'B', isOnTrial: true, isFactory: false }, phase: 'trial' },
      '2 is running on trial. ',
    ],
    [
      { running: { version: undefined, slot: 'A', isOnTrial: false, isFactory: true } },
      'The factory image is running. ',
    ],
    [
      { running: { version: undefined, slot: 'A', isOnTrial: false, isFactory: false } },
      'The running version is unknown: the agent did not install it. ',
    ],
    [{ running: undefined, installed: undefined }, 'The gateway is running. '],
  ])('with %j begins: %s', (change, start) => {
    expect(rowOf('State', renderStatus({ ...calmStatus, ...change }, page)).startsWith(start)).toBe(true);
  });

  test.each<[OutcomeReport['outcome'], string]>([
    ['failed', 'The update to gateway-1.5.0 failed: y (x).'],
    ['refused', 'gateway-1.5.0 was refused: y (x).'],
    ['rolled-back', 'The update to gateway-1.5.0 was rolled back: y (x).'],
  ])('after an update that was %s is: %s', (outcome, told) => {
    const lastOutcome: OutcomeReport = {
      attempt: '1',
      version: 'gateway-1.5.0',
      outcome,
      code: 'x',
      reason: 'y',
      at: '2026-03-01T11:00:00Z',
    };
    expect(rowOf('State', renderStatus({ ...calmStatus, lastOutcome }, page))).toBe(
      `gateway-1.4.2 is running. ${told}`,
    );
  });

  // Regression: address, path and body of the reply in the first line of a status.
  test.each([
    [
      'datapoints of event level: the service does not know it (status 404 of x:1/v1/…): {"error":"none"}',
      'The last call to the service failed: datapoints of event level: the service does not know it (HTTP 404).',
    ],
    ['target version: x:1 refused the connection', 'The last update check failed: x:1 refused the connection.'],
  ])('after the error %s is: %s', (lastError, matter) => {
    const service = { ...calmStatus.service, lastError };
    const text = renderStatus({ ...calmStatus, service }, page);
    expect(rowOf('State', text)).toBe(`gateway-1.4.2 is running. ${matter}`);
    expect(rowOf('Service', text).includes('refused')).toBe(false);
  });

  // Regression: an alarm with contradictory advice after a rollback by an operator.
  test.each<[Partial<OutcomeReport>, string, string]>([
    [{}, 'An operator rolled back 1.5.0.', 'nothing; to allow 1.5.0 again: agent unblock 1.5.0'],
    [{ by: 'rollback', version: 'the factory image' }, 'The rollback to the factory image was cancelled.', 'nothing'],
  ])('after a rollback by an operator (%j) is: %s', (change, told, toDo) => {
    const at = '2026-03-01T11:00:00Z';
    const version = '1.5.0';
    const lastOutcome = { attempt: '1', version, outcome: 'rolled-back', code: 'manual', reason: 'y', at } as const;
    const ids = { versionId: undefined, digest: 'sha256:00', until: undefined };
    const quarantine = [{ version, ...ids, code: 'manual', reason: 'y', at }];
    const text = renderStatus({ ...calmStatus, quarantine, lastOutcome: { ...lastOutcome, ...change } }, page);
    expect(rowOf('State', text)).toBe(`gateway-1.4.2 is running. ${told}`);
    expect(rowOf('To do', text)).toBe(toDo);
  });

  // Regression: "or try again: agent --update-now", which installs the assigned version and does not roll back.
  test('after a rollback that failed names the command that rolls back', () => {
    const reason = 'unhealthy';
    const at = '2026-03-01T11:00:00Z';
    const last = { attempt: '1', version: '1.4.0', by: 'rollback', code: reason, reason, at } as const;
    const ids = { versionId: undefined, digest: 'sha256:00', until: undefined };
    const quarantine = [{ version: '1.4.0', ...ids, code: reason, reason, at }];
    for (const outcome of ['failed', 'rolled-back'] as const) {
      const report = { ...calmStatus, quarantine, lastOutcome: { ...last, outcome } };
      expect(nextStepOf(report).text).toBe('see its steps: agent log, or try again: agent rollback');
    }
  });
});

// Regression: "try again: agent --update-now", which was then deferred.
test.each([
  ['manual-override', 'install the assigned version: agent --update-now --force'],
  ['attempts-exhausted', 'try again: agent --update-now --force'],
  ['update-available', 'try again: agent --update-now'],
] as const)('names a way out after a failed attempt with the idle code %s', (idleCode, way) => {
  const last = { attempt: '1', version: '2', outcome: 'failed', code: 'x', reason: 'y', at: '' } as const;
  const problems = ['last-attempt-failed'] as const;
  const report = { ...calmStatus, idleCode, lastOutcome: last, problems: [...problems], state: undefined };
  expect(nextStepOf(report).text).toBe(`see its steps: agent log, or ${way}`);
});

// Regression: "add the public key of your releases", of a key that is configured, but not trusted.
test('names the command that makes a trusted key acceptable', () => {
  const fix = 'chmod go-w /keys';
  const warnings = ['the clock is not set', `/keys/a.pem is not trusted: /keys can be changed; fix it with: ${fix}`];
  const report = { ...calmStatus, problems: ['no-trusted-key' as const], state: undefined };
  expect(nextStepOf({ ...report, warnings }).text).toBe(fix);
  expect(nextStepOf(report).text).toBe('add the public key of your releases to [trust] keys');
});

// Regression: exit code 1 while "To do" was "nothing" (on hold, rolled back, interrupted), and 0 for a trial that no
// daemon checks.
describe('the exit code and what to do', () => {
  const anything = fc.record({
    phase: fc.constantFrom('idle', 'staging', 'staged', 'trial', 'rolling-back', 'lost'),
    daemon: fc.boolean(),
    booted: fc.constantFrom(undefined, 'A' as const),
    idleCode: fc.constantFrom(...idleCodes),
    problems: fc.subarray([...problems]),
    hold: fc.constantFrom(undefined, { since: '2026-03-01T11:00:00Z' }),
    activity: fc.constantFrom(undefined, { process: 'the daemon' }),
    rebootDeferral: fc.constantFrom(undefined, { reason: 'x' }),
    hookDeferral: fc.constantFrom(undefined, { reason: 'x', until: '2026-03-01T12:00:00Z' }),
  });

  test('agree in every state', () => {
    fc.assert(
      fc.property(anything, (change) => {
        const state = stateOf(change);
        const { isNeeded, text } = nextStepOf({ ...calmStatus, ...change, state });
        expect(isNeeded).toBe(stateExitCodes[state] > 0);
        expect(text.startsWith('nothing')).toBe(!isNeeded);
      }),
    );
  });

  test.each<[Partial<StatusReport>, number, string]>([
    [{ hold: { since: '2026-03-01T11:00:00Z' } }, 1, 'wait, or resume updates: agent resume'],
    [
      { phase: 'staged', hold: { since: '2026-03-01T11:00:00Z' } },
      1,
      'wait for the end of the hold, or resume updates: agent resume',
    ],
    [{ phase: 'staging', idleCode: 'interrupted' }, 1, 'wait for the next check, or resume it now: agent --update-now'],
    [
      { phase: 'trial', daemon: false, problems: ['no-daemon'] },
      1,
      'systemctl start thing-agent, or decide now: agent commit, or agent rollback',
    ],
    [{ phase: 'trial' }, 0, 'nothing; to decide now: agent commit, or agent rollback'],
  ])('with %j are %i and: %s', (change, exitCode, text) => {
    const report = { ...calmStatus, ...change };
    expect(stateExitCodes[stateOf({ ...report, problems: report.problems ?? [] })]).toBe(exitCode);
    expect(nextStepOf(report).text).toBe(text);
  });
});
