import { beforeEach, describe, expect, test } from 'vitest';

import type { OperationEvent } from '../../../src/control/events.ts';
import { statusRows } from '../../../src/control/presentation/rows/status-rows.ts';
import type { StatusReport } from '../../../src/control/reports.ts';
import { statusReport } from '../../../src/daemon/status/status-report.ts';
import { ServiceError } from '../../../src/service/errors.ts';
import type { Updater } from '../../../src/update/updater.ts';
import { calmSurroundings } from './calm-surroundings.ts';
import { Technician } from './updates/technician.ts';

const { signal } = new AbortController();
const bySchedule = { reboot: true, force: false, manual: false };
const when = { nowMs: 0, localOffset: () => 0 };

let technician: Technician;
let updater: Updater;
let events: OperationEvent[];

/** Version 1 runs. */
beforeEach(async () => {
  technician = new Technician();
  await technician.update();
  updater = await technician.updater();
  events = [];
});

async function take(id = 'trust-1'): Promise<unknown> {
  technician.gateway.service.target = id;
  return updater.updateNow(bySchedule, (event) => events.push(event), signal);
}

function status(): StatusReport {
  const { listNumber } = technician;
  return statusReport(updater.journal.state, { ...calmSurroundings, lastLook: updater.lastLook, listNumber });
}

function row(label: string): readonly string[] | undefined {
  return statusRows(status(), when).find((found) => found.label === label)?.paragraphs;
}

// Regression: "Installed 1.5.0 (id trust-2)", "version trust-2 is to be installed", and "telling the service: 1.5.0".
describe('a trust list is not a release: once it is in effect,', () => {
  test('the installed release is shown with its own name and id, and the list with its number', async () => {
    await take();
    expect(status()).toMatchObject({
      installed: { versionName: 'version 1', versionId: '1' },
      trustList: { number: 1, versionId: 'trust-1' },
    });
    expect(row('Installed')?.join(' ')).toMatch(/^version 1 in slot B id 1, sha256/);
    expect(row('Trust list')).toEqual(['number 1 is in effect']);
    expect(row('Last update')?.[0]).toMatch(/^trust list 1: in effect, /);
  });

  test('the gateway is up to date, and a manual check shows that the list is in effect', async () => {
    await take();
    expect(status()).toMatchObject({
      idleCode: 'up-to-date',
      idleReason: 'trust list trust-1 is in effect, as assigned by the service',
    });
    expect(await take()).toEqual({ kind: 'up-to-date', version: 'trust-1', trustList: true });
  });

  test('the list is reported to the service by its name, instead of the running version', async () => {
    await take();
    expect(events).toContainEqual({ kind: 'phase', phase: 'switching', detail: 'trust-1' });
  });

  test('status shows the unreported list while the service has no record of it', async () => {
    technician.gateway.service.switchTo = async () =>
      Promise.reject(new ServiceError({ code: 'connection-refused', why: 'nobody listens' }));
    await take();
    expect(row('To report')?.[0]).toBe('not yet reported to the service: trust list trust-1 is in effect');
  });

  test('one after another leaves what is installed its own id, also when it is the one before', async () => {
    await take();
    const { service } = technician.gateway;
    const asNamed = service.targetVersion.bind(service);
    service.targetVersion = async () => ({ id: 'trust-2', name: 'trust-1' });
    await take('trust-2');
    expect(status()).toMatchObject({ installed: { versionId: '1' }, trustList: { number: 2, versionId: 'trust-2' } });
    service.targetVersion = asNamed;
    service.target = '2';
    await technician.update();
    updater = await technician.updater();
    expect(status()).toMatchObject({ installed: { versionId: '2' }, previous: { versionId: '1' } });
  });

  test('an older journal without that id shows none, instead of the list’s', () => {
    const { state } = updater.journal;
    const installed = state.installed && { ...state.installed, version: { id: 'trust-1', name: '1.5.0' } };
    const told = statusReport({ ...state, installed, listVersion: 'trust-1' }, { ...calmSurroundings, listNumber: 1 });
    expect(told.installed).toMatchObject({ versionName: '1.5.0', versionId: undefined });
  });
});
