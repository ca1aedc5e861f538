import { expect, test } from 'vitest';

import { examineWatchdog } from '../../../../src/daemon/doctor/engine-checks.ts';
import { runChecks } from '../../../../src/daemon/doctor/findings.ts';

const of = async (facts: Parameters<typeof examineWatchdog>[0]) =>
  (await runChecks({ watchdog: async () => examineWatchdog(facts) }, {}, new AbortController().signal))[0];

test('accepts a watchdog in use and shows the timeout in effect', async () => {
  expect(await of({ state: 'active', timeout: '14', requested: '14s' })).toEqual({
    name: 'watchdog',
    ok: true,
    detail: 'active, with a timeout of 14 s',
  });
});

// Regression with i6300esb: "Failed to set watchdog hardware timeout to 1h: Invalid argument", and doctor advised the
// failed value.
test('warns that the driver may have refused the requested timeout, and names one that a Raspberry Pi accepts', async () => {
  expect(await of({ state: 'inactive', timeout: '30', requested: '1h' })).toEqual({
    name: 'watchdog',
    ok: true,
    isWarning: true,
    detail: expect.stringContaining('not in use (inactive) although RuntimeWatchdogSec is 1h') as unknown,
    advice: expect.stringContaining('RuntimeWatchdogSec=14s') as unknown,
  });
});

// Source of the identity: drivers/watchdog/softdog.c of Linux.
const softdog = { state: 'active', timeout: '14', requested: '14s', identity: 'Software Watchdog' };

test.each([
  [{ state: 'inactive', timeout: '30', requested: '0' }, 'not in use (inactive)', 'RuntimeWatchdogSec=14s'],
  [{ state: undefined, timeout: undefined, requested: '' }, 'reports no hardware watchdog', 'load its driver'],
  [softdog, 'a software watchdog does not restart a gateway whose kernel hangs', 'instead of softdog'],
])('warns of a machine without a hardware watchdog in use: %j', async (facts, detail, advice) => {
  expect(await of(facts)).toMatchObject({
    isWarning: true,
    detail: expect.stringContaining(detail) as unknown,
    advice: expect.stringContaining(advice) as unknown,
  });
});
