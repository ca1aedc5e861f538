import { expect, test } from 'vitest';

import type { Page } from '../../../../src/cli/screen/page.ts';
import {
  renderCheck,
  renderDoctor,
  renderError,
  renderOutcome,
} from '../../../../src/cli/screen/pages/render-reports.ts';
import { plain } from '../../../../src/cli/screen/style.ts';
import type { OperationOutcome } from '../../../../src/control/events.ts';
import type { CheckReport } from '../../../../src/control/reports.ts';
import { noon } from '../fake-context.ts';
import { installCheck } from '../fake-operations.ts';
import { rowOf } from '../row-of.ts';

const page: Page = { columns: 80, paint: plain, nowMs: noon, localOffset: () => 60 };

test.each<[CheckReport['plan'], string]>([
  ['install', 'gateway-1.5.0 would be installed: agent --update-now'],
  ['up-to-date', 'Nothing to do: the offered version is running.'],
  ['deferred', 'gateway-1.5.0 is deferred.'],
  ['nothing-offered', 'Nothing to do: the service offers no update.'],
])('check with plan %s says: %s', (plan, told) => {
  const text = renderCheck({ ...installCheck, plan, reason: 'because of a reason' }, page);
  expect(rowOf('Plan', text)).toBe(`${told} because of a reason`);
  expect(rowOf('Offered', text)).toContain('gateway-1.5.0 (id v-150)');
});

// Regression: "would be installed", and nothing else, of a version that had been refused a minute before.
test('check shows that a version was rejected last time, the reason, and the remedy', () => {
  const lastTry = {
    attempt: '0192-4f5c-7a',
    version: 'gateway-1.5.0',
    outcome: 'refused',
    code: 'not-signed',
    reason: 'it is not signed',
    at: new Date(noon - 60_000).toISOString(),
  } as const;
  const text = renderCheck({ ...installCheck, lastAttempt: lastTry }, { ...page, columns: 200 }, 'sign it');
  expect(rowOf('Plan', text)).toContain('gateway-1.5.0 would be tried again: agent --update-now');
  expect(rowOf('Last attempt', text)).toMatch(
    /^refused, .*: it is not signed \(not-signed\) to do: sign it steps: agent log$/,
  );
  expect(renderCheck(installCheck, page)).not.toContain('Last try');
});

// Regression: "2 would be installed: agent --update-now" and "2 can be installed" in one row.
test('check states a plan once', () => {
  const text = renderCheck({ ...installCheck, reason: 'gateway-1.5.0 can be installed' }, page);
  expect(rowOf('Plan', text)).toBe('gateway-1.5.0 would be installed: agent --update-now');
});

test('check shows that a trust list would take effect, not be installed', () => {
  const text = renderCheck({ ...installCheck, trustList: true, reason: '' }, page);
  expect(rowOf('Plan', text)).toBe('gateway-1.5.0 would take effect: agent --update-now');
  const taken = renderCheck({ ...installCheck, plan: 'up-to-date', trustList: true, reason: '' }, page);
  expect(rowOf('Plan', taken)).toBe('Nothing to do: gateway-1.5.0 is in effect.');
});

test.each<[OperationOutcome, string]>([
  [{ kind: 'up-to-date', version: 'v1' }, 'Nothing to do: v1 is installed.'],
  [{ kind: 'up-to-date', version: 'trust-1', trustList: true }, 'Nothing to do: trust-1 is in effect.'],
  [
    { kind: 'up-to-date', version: 'v1', reason: 'the service offers no version' },
    'Nothing to do: the service offers no version.',
  ],
  [{ kind: 'up-to-date', version: 'v1', isRecovery: true }, 'No interrupted update.'],
  [
    { kind: 'up-to-date', version: 'v1', isRecovery: true, reason: 'the download of v2 was interrupted' },
    'The download of v2 was interrupted.',
  ],
  [{ kind: 'installed', version: 'v1' }, 'Done: v1 is installed.'],
  [
    { kind: 'reboot-required', version: 'v1', slot: 'B' },
    'v1 is staged in slot B. It starts at the next boot: agent reboot',
  ],
  // Regression: a rollback was described as an update.
  [
    { kind: 'reboot-required', version: 'v1', slot: 'B', isRollback: true },
    'The rollback to v1 is staged in slot B. It starts at the next boot: agent reboot',
  ],
  [
    { kind: 'rebooting', version: 'v1', slot: 'B' },
    'v1 is staged in slot B; the gateway is rebooting into it. Afterwards: agent status',
  ],
  [
    { kind: 'rebooting', version: 'v2', slot: 'A', reason: 'no answer', goesBack: true },
    'v2 is rolled back (no answer): the gateway is rebooting into slot A. Afterwards: agent status',
  ],
  [
    { kind: 'deferred', version: 'v1', code: 'outside-window', reason: 'the window opens at 02:00' },
    'v1 is deferred: the window opens at 02:00 (outside-window). To install it anyway, use --force.',
  ],
  [{ kind: 'rolled-back', version: 'v1', reason: 'not healthy' }, 'v1 was rolled back: not healthy'],
  [
    { kind: 'rolled-back', version: 'v2', instead: 'v1', reason: 'not healthy' },
    'v2 was rolled back to v1: not healthy',
  ],
  [
    { kind: 'rebooting', version: 'the factory image', slot: 'A', isRollback: true },
    'The rollback to the factory image is staged in slot A; the gateway is rebooting into it. Afterwards: agent status',
  ],
  [
    { kind: 'rebooting', version: 'v1', slot: 'B', isRollback: true, reason: 'bad', goesBack: true, instead: 'v2' },
    'The rollback to v1 is undone (bad): the gateway is rebooting into v2 in slot B. Afterwards: agent status',
  ],
  [
    { kind: 'rolled-back', version: 'v1', isRollback: true, reason: 'not healthy', instead: 'v2' },
    'The rollback to v1 was undone, back to v2: not healthy. For its steps: agent log',
  ],
])('the outcome %j is told so', (outcome, told) => {
  expect(renderOutcome(outcome, false, { ...page, columns: 120 })).toBe(`${told}\n`);
});

test('does not suggest force for a forced request', () => {
  const held: OperationOutcome = { kind: 'deferred', version: 'v1', code: 'clock-unsynchronized', reason: 'no time' };
  expect(renderOutcome(held, true, page)).toBe('v1 is deferred: no time (clock-unsynchronized).\n');
});

test('doctor counts failures and gives advice only for them', () => {
  const text = renderDoctor(
    [
      { name: 'clock', ok: true, detail: 'it is set', advice: 'unneeded' },
      { name: 'boot environment', ok: false, detail: 'cannot be written', advice: 'check fw_env.config' },
    ],
    page,
  );
  expect(text).toBe(
    'ok    clock             it is set\n' +
      'FAIL  boot environment  cannot be written\n' +
      '                        check fw_env.config\n' +
      '2 checks: 1 ok, 1 failed.\n',
  );
});

test('the doctor counts warnings in its summary', () => {
  const warning = { name: 'watchdog', ok: true, isWarning: true, detail: 'none', advice: 'load its driver' };
  const failure = { name: 'clock', ok: false, detail: 'it is not set' };
  const text = 'WARN  watchdog  none\n                load its driver\n';
  expect(renderDoctor([warning], page)).toBe(`${text}1 check: 0 ok, 1 warning.\n`);
  expect(renderDoctor([warning, failure], page)).toMatch(/2 checks: 0 ok, 1 warning, 1 failed\.\n$/);
});

test('an error shows its cause, its code, and the remedy', () => {
  const text = renderError({ code: 'disk-full', message: 'cannot write', exit: 'disk', advice: 'make room' }, page);
  expect(text).toBe('agent: cannot write (disk-full)\n       make room\n');
});

// Regression: "1.4.0 is deferred: …" of the version on trial.
test('a check shows that the offered version is on trial', () => {
  const reason = 'gateway-1.5.0 is on trial in slot B';
  const text = renderCheck({ ...installCheck, plan: 'deferred', reason }, page);
  expect(rowOf('Plan', text)).toBe(reason);
});

test('a check shows the reason for a deferral once', () => {
  const reason = 'gateway-1.5.0 is deferred: installing may begin at 02:00';
  const text = renderCheck({ ...installCheck, plan: 'deferred', reason }, { ...page, columns: 200 });
  expect(text.match(/deferred/g)).toHaveLength(1);
  expect(text).toContain('installing may begin at 02:00');
});
