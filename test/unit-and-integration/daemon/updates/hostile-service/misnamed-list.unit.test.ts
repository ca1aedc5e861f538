import { beforeEach, describe, expect, test } from 'vitest';

import type { Updater } from '../../../../../src/update/updater.ts';
import { Technician } from '../technician.ts';

const byHand = { reboot: true, force: false, manual: true };
const bySchedule = { ...byHand, manual: false };

let technician: Technician;
/** IDs of the firmware that was requested. */
let opened: string[];

/** Version 1 runs, the gateway has no clock, and `trust-7` is a release. */
beforeEach(async () => {
  technician = new Technician();
  technician.follow = { kind: 'updates', choice: { kind: 'newest' } };
  offer('1');
  await technician.update();
  opened = [];
  const { service } = technician.gateway;
  const firmware = service.firmware.bind(service);
  service.firmware = (id) => {
    opened.push(id);
    return firmware(id);
  };
});

function offer(...ids: readonly string[]): void {
  const { service } = technician.gateway;
  service.updates = async () => service.versions.filter(({ id }) => ids.includes(id));
}

/** Runs update cycles by the schedule, with every reboot. */
async function cycles(count: number): Promise<unknown[]> {
  const ends: unknown[] = [];
  for (let cycle = 0; cycle < count; cycle += 1) {
    const end = await technician.updateOnce(bySchedule).catch((error: unknown) => error);
    if (typeof end === 'object' && end !== null && 'kind' in end && end.kind === 'rebooting')
      technician.gateway.start();
    ends.push(end);
  }
  return ends;
}

async function state(): Promise<Updater['journal']['state']> {
  return (await technician.updater()).journal.state;
}

// Regression: one misnamed release stopped all releases and trust lists.
describe('a release with the name of a trust list', () => {
  test('delays other releases, and is retried ever more rarely', async () => {
    offer('3', 'trust-7');
    const ends = await cycles(6);
    expect(ends[0]).toMatchObject({ code: 'trust-list-mismatch' });
    expect(technician.gateway.running).toBe('image of version 3');
    opened = [];
    await cycles(200);
    expect(opened.filter((id) => id === 'trust-7').length).toBeGreaterThan(2);
    expect(opened.length).toBeLessThan(10);
    expect(technician.gateway.running).toBe('image of version 3');
  });

  test('delays a trust list with a lower number', async () => {
    offer('trust-1', 'trust-7');
    expect(await cycles(6)).toContainEqual({ kind: 'installed', version: 'trust-1' });
  });

  test('lets a trust list end a trial', async () => {
    offer('3');
    await technician.updateOnce(byHand);
    technician.gateway.start();
    offer('3', 'trust-1', 'trust-7');
    technician.onListTaken = () => (technician.revocation = 'was revoked by list 2');
    expect(await technician.updateOnce(bySchedule)).toMatchObject({ kind: 'rebooting', goesBack: true });
  });

  test('does not withdraw a staged release', async () => {
    offer('3');
    await technician.updateOnce({ ...byHand, reboot: false });
    offer('3', 'trust-7');
    await cycles(3);
    expect(await state()).toMatchObject({ phase: { kind: 'trial', attempt: { version: { id: '3' } } } });
    offer('3', 'trust-1', 'trust-7');
    expect(await cycles(4)).toContainEqual({ kind: 'installed', version: 'trust-1' });
  });

  test('does not discard the progress of a download', async () => {
    const { service } = technician.gateway;
    technician.follow = { kind: 'updates', choice: { kind: 'last' } };
    offer('long');
    service.cutTransfersAfter = 32;
    await cycles(1);
    const { phase } = await state();
    expect(phase).toMatchObject({ kind: 'staging', checkpoint: { wire: { offset: 96 } } });
    service.cutTransfersAfter = undefined;
    offer('long', 'trust-7');
    await cycles(2);
    expect(technician.gateway.running).toMatch(/^image of version long/);
  });
});

// Regression: a trust list ended the override, so the next check installed the abandoned version again.
describe('a rollback by an operator is kept', () => {
  test.each([
    ['after a check', async () => void (await cycles(1))],
    ['before any check', async () => {}],
  ])('when a trust list takes effect %s', async (_, check) => {
    offer('3');
    await technician.update();
    await technician.rollbackUntilReboot(byHand);
    technician.gateway.start();
    await check();
    offer('3', 'trust-1');
    expect(await cycles(3)).toContainEqual({ kind: 'installed', version: 'trust-1' });
    const last = (await cycles(3)).at(-1);
    expect(last).toMatchObject({ kind: 'deferred', code: 'manual-override', version: 'version 3' });
    expect(technician.gateway.running).toBe('image of version 1');
  });

  test('when the service assigns the list', async () => {
    const { service } = technician.gateway;
    technician.follow = { kind: 'target' };
    service.target = '3';
    await technician.update();
    await technician.rollbackUntilReboot(byHand);
    technician.gateway.start();
    service.target = 'trust-1';
    await cycles(3);
    service.target = '3';
    expect(await cycles(2)).toMatchObject([{ code: 'manual-override' }, { code: 'manual-override' }]);
    service.target = '2';
    await cycles(2);
    expect(technician.gateway.running).toBe('image of version 2');
  });
});

test('a staged file is not withdrawn for a trust list in effect', async () => {
  technician.follow = { kind: 'target' };
  technician.gateway.service.target = 'trust-1';
  await cycles(1);
  await technician.install('image from a stick', false, 'manual', { reboot: false });
  await cycles(2);
  expect(await state()).toMatchObject({ phase: { kind: 'trial', attempt: { by: 'file' } } });
});
