import { beforeEach, describe, expect, test } from 'vitest';

import { checkReport } from '../../../../src/daemon/status/check-report.ts';
import { UpdateError } from '../../../../src/update/errors.ts';
import type { ConsentHook } from '../../../../src/update/hooks/hooks.ts';
import type { FirmwareSource } from '../../../../src/update/ports.ts';
import type { Updater } from '../../../../src/update/updater.ts';
import { MemoryService } from '../../../fakes/machine/memory/memory-service.ts';
import { Technician } from './technician.ts';

const byHand = { reboot: true, force: false, manual: true };
const bySchedule = { ...byHand, manual: false };
const ignore = (): void => {};
const { signal } = new AbortController();
const taken = { kind: 'installed', version: 'trust-1' };

let technician: Technician;
/** Ids of requested firmware since version 1 was installed. */
let opened: string[];

/** Version 1 runs. */
beforeEach(async () => {
  technician = new Technician();
  await technician.update();
  opened = [];
  const { service } = technician.gateway;
  const firmware = service.firmware.bind(service);
  service.firmware = (id) => {
    opened.push(id);
    return firmware(id);
  };
});

async function state(): Promise<Updater['journal']['state']> {
  return (await technician.updater()).journal.state;
}

/** The same agent continues. */
async function rounds(updater: Updater, count: number): Promise<unknown[]> {
  const outcomes: unknown[] = [];
  for (let round = 0; round < count; round += 1) outcomes.push(await updater.updateNow(bySchedule, ignore, signal));
  return outcomes;
}

/** Every hook answers with this. */
function refuse(code: 'hook-deferred' | 'hook-rejected'): void {
  const ask: ConsentHook = async (hook) => {
    throw new UpdateError(code, `${hook} was asked`);
  };
  technician.hooks = {
    ask,
    askInTurn: ask,
    pause: undefined,
    wants: (hook) => hook === 'before_install',
    tell: async () => undefined,
    trouble: undefined,
  };
}

const obstacles: readonly (readonly [string, string, () => Promise<void>])[] = [
  ['while a person holds updates', 'on-hold', async () => void (await (await technician.updater()).hold({}))],
  [
    'outside the maintenance window',
    'outside-window',
    async () => void (technician.window = { fromMinute: 60, toMinute: 120 }),
  ],
  [
    'where the window cannot be known without a clock',
    'clock-unsynchronized',
    async () => {
      technician.window = { fromMinute: 60, toMinute: 120 };
      technician.minute = undefined;
    },
  ],
  ['where a hook would not consent now', 'hook-deferred', async () => refuse('hook-deferred')],
  ['where a hook would say no', 'hook-rejected', async () => refuse('hook-rejected')],
];

describe.each(obstacles)('a trust list takes effect immediately %s', (_, code, obstruct) => {
  test('if the service names it', async () => {
    await obstruct();
    technician.gateway.service.target = 'trust-1';
    expect(await technician.updateOnce(bySchedule)).toEqual(taken);
    expect(await state()).toMatchObject({ phase: { kind: 'idle' }, installed: { version: { id: 'trust-1' } } });
    expect(technician.gateway.service.current).toBe('trust-1');
  });

  test('if an operator brings it', async () => {
    await obstruct();
    expect(await technician.installList()).toEqual(taken);
  });

  // Regression: the list was shown as deferred, and the update right after it applied it.
  test('and a check shows that, and changes nothing', async () => {
    await obstruct();
    technician.gateway.service.target = 'trust-1';
    const updater = await technician.updater();
    const before = updater.journal.state;
    for (let times = 0; times < 3; times += 1) {
      const look = await updater.look({ manual: true, force: false }, signal);
      expect(look).toMatchObject({ plan: { kind: 'install', version: { id: 'trust-1' }, trustList: true } });
      expect(checkReport(updater.journal.state, look)).toMatchObject({ plan: 'install', trustList: true });
    }
    expect(updater.journal.state).toEqual(before);
    expect(await rounds(updater, 1)).toEqual([taken]);
  });

  test('and other offers of the service or of an operator wait or are rejected as before', async () => {
    await obstruct();
    technician.gateway.service.target = '2';
    const slots = [technician.gateway.slots.content('A'), technician.gateway.slots.content('B')];
    const end = await technician.updateOnce(bySchedule).catch((error: unknown) => error);
    expect(end).toMatchObject({ code });
    expect([technician.gateway.slots.content('A'), technician.gateway.slots.content('B')]).toEqual(slots);
    expect(technician.gateway.running).toBe('image of version 1');
  });
});

// Regression: "version trust-1 is to be installed" in status, a minute after it was, until the next check.
describe('status shows what the next check would do with the last offer of the service', () => {
  test('once it was done', async () => {
    const updater = await technician.updater();
    technician.gateway.service.target = 'trust-1';
    await rounds(updater, 1);
    expect(updater.lastLook?.plan).toEqual({ kind: 'up-to-date', version: 'trust-1', trustList: true });
  });

  test('once it failed twice', async () => {
    refuse('hook-rejected');
    const updater = await technician.updater();
    technician.gateway.service.target = '2';
    await expect(rounds(updater, 1)).rejects.toMatchObject({ code: 'hook-rejected' });
    await expect(rounds(updater, 1)).rejects.toMatchObject({ code: 'hook-rejected' });
    expect(updater.lastLook?.plan).toMatchObject({ kind: 'deferred', code: 'retry-backoff' });
  });

  test('while updates are on hold, and after they resume', async () => {
    const updater = await technician.updater();
    technician.gateway.service.target = '2';
    await updater.look(bySchedule, signal);
    await updater.hold({});
    expect(updater.lastLook?.plan).toMatchObject({ code: 'on-hold' });
    await updater.resume();
    expect(updater.lastLook?.plan).toMatchObject({ kind: 'install' });
  });
});

describe('what has to wait', () => {
  beforeEach(async () => {
    await (await technician.updater()).hold({});
    technician.gateway.service.target = '2';
  });

  test('is never opened, and a trust list is not deferred with it', async () => {
    const updater = await technician.updater();
    const held = { kind: 'deferred', version: 'version 2', code: 'on-hold' };
    expect(await rounds(updater, 5)).toMatchObject(Array.from({ length: 5 }, () => held));
    expect(opened).toEqual([]);
    technician.gateway.service.target = 'trust-1';
    expect(await rounds(updater, 1)).toEqual([taken]);
  });

  test('is not installed under the name of a trust list', async () => {
    const { service } = technician.gateway;
    service.targetVersion = async () => ({ id: '2', name: 'trust-9' });
    await expect(technician.updateOnce(bySchedule)).rejects.toMatchObject({ code: 'trust-list-mismatch' });
    expect(technician.gateway.running).toBe('image of version 1');
    expect(technician.gateway.bootloader.bootable).toEqual(['B', 'A']);
  });
});

describe('a list that failed before', () => {
  /** Replaces the service's content by unverified data. Returns a function that restores it. */
  function spoil(): () => void {
    const { service } = technician.gateway;
    const firmware = service.firmware.bind(service);
    service.firmware = (id) => ({ ...firmware(id), open: garbage });
    return () => {
      service.firmware = firmware;
    };
  }
  const garbage = async (): ReturnType<FirmwareSource['open']> =>
    new MemoryService(new Map([['x', Buffer.from('a login page')]]), 'x').firmware('x').open(undefined, signal);

  // Regression: three bad deliveries delayed a trust list for as long as a quarantine lasts.
  test('takes effect as soon as it arrives intact, after any number of bad deliveries', async () => {
    technician.gateway.service.target = 'trust-1';
    const updater = await technician.updater();
    const restore = spoil();
    for (let check = 0; check < 10; check += 1) await updater.updateNow(bySchedule, ignore, signal).catch(() => {});
    expect(await rounds(updater, 1)).toMatchObject([{ kind: 'deferred', code: 'retry-backoff' }]);
    expect(opened.length).toBeLessThan(8);
    restore();
    expect(await rounds(updater, 8)).toContainEqual(taken);
  });

  test('takes effect immediately if an operator asks for it', async () => {
    technician.gateway.service.target = 'trust-1';
    const updater = await technician.updater();
    const restore = spoil();
    for (let check = 0; check < 10; check += 1) await updater.updateNow(bySchedule, ignore, signal).catch(() => {});
    restore();
    expect(await updater.updateNow(byHand, ignore, signal)).toEqual(taken);
  });

  // The service could have the same list taken at each check, under ever new ids.
  test('is taken again after pauses, whatever its id', async () => {
    const { service } = technician.gateway;
    const firmware = service.firmware.bind(service);
    service.firmware = () => firmware('trust-1');
    technician.onListTaken = () => {
      throw new UpdateError('downgrade', 'list 1 is not newer than list 5');
    };
    const updater = await technician.updater();
    const codes: unknown[] = [];
    for (const id of ['2', '3', '4', '5']) {
      service.targetVersion = async () => ({ id, name: 'trust-1' });
      const end = await updater.updateNow(bySchedule, ignore, signal).catch((error: unknown) => error);
      codes.push((end as { readonly code?: string }).code);
    }
    expect(codes).toEqual(['downgrade', 'downgrade', 'retry-backoff', 'retry-backoff']);
  });

  test('takes effect although an operator installed a file instead', async () => {
    technician.gateway.service.target = 'trust-1';
    await technician.install('image from a stick', true);
    const updater = await technician.updater();
    expect(updater.journal.state.installed?.version).toMatchObject({ name: 'manual', id: 'trust-1' });
  });
});

describe('during the trial of a new release', () => {
  /** Version 2 was booted, and the service names this by now. */
  async function onTrial(target: string): Promise<void> {
    technician.gateway.service.target = '2';
    await technician.updateOnce(byHand);
    technician.gateway.start();
    technician.gateway.service.target = target;
    opened = [];
  }

  // Regression: the release that the list revoked was committed first, and warned about afterwards.
  test('a list that the service names takes effect before the trial is judged', async () => {
    await onTrial('trust-1');
    technician.onListTaken = () => (technician.revocation = 'was revoked by list 2');
    expect(await technician.updateOnce(bySchedule)).toMatchObject({ kind: 'rebooting', goesBack: true });
    technician.revocation = undefined;
    technician.gateway.start();
    expect(await technician.update()).toEqual(taken);
    expect(technician.gateway.running).toBe('image of version 1');
  });

  // Regression: the trial was committed first, and the list then revoked the running version.
  test('so does one from an operator', async () => {
    await onTrial('2');
    technician.onListTaken = () => (technician.revocation = 'was revoked by list 2');
    expect(await technician.installList()).toMatchObject({ kind: 'rebooting', goesBack: true });
    technician.gateway.start();
    technician.gateway.service.target = '1';
    technician.revocation = undefined;
    await technician.update();
    expect(technician.gateway.running).toBe('image of version 1');
  });

  // Found by a stranger: the same rollback, asked for a minute later, would have been refused.
  test.each<readonly [boolean, string]>([
    [false, 'image of version 2'],
    [true, 'image of version 1'],
  ])('what a person goes back to is kept, where a list revokes it, by force alone (%s)', async (force, runs) => {
    technician.gateway.service.target = '2';
    await technician.update();
    await technician.rollbackUntilReboot({ ...byHand, force });
    technician.gateway.start();
    technician.revocation = 'was revoked by list 2';
    expect(await technician.settle()).toMatchObject(force ? { kind: 'installed' } : { goesBack: true });
    technician.gateway.start();
    technician.revocation = undefined;
    await technician.settle();
    expect(technician.gateway.running).toBe(runs);
  });

  test('nor is it booted, where it waits for a reboot by hand', async () => {
    technician.gateway.service.target = '2';
    await technician.update();
    await technician.rollbackUntilReboot({ ...byHand, reboot: false });
    technician.revocation = 'was revoked by list 2';
    const reboot = (await technician.updater()).reboot(undefined, signal);
    await expect(reboot).rejects.toMatchObject({ code: 'no-longer-trusted' });
    expect(technician.gateway.bootloader.bootable).toEqual(['A']);
  });

  // Regression: the staged release was discarded for a list that was rejected afterwards.
  test.each(['staged', 'trial'])('a rejected one changes nothing (%s)', async (kind) => {
    technician.gateway.service.target = '2';
    await technician.updateOnce({ ...byHand, reboot: kind === 'trial' });
    if (kind === 'trial') technician.gateway.start();
    const before = technician.gateway.bootloader.bootable;
    technician.onListTaken = () => {
      throw new UpdateError('hook-rejected', 'list 1 is not newer than list 5');
    };
    await expect(technician.installList()).rejects.toThrow('not newer');
    expect(technician.gateway.bootloader.bootable).toEqual(before);
    if (kind === 'staged') await (await technician.updater()).reboot(undefined, signal);
    if (kind === 'staged') technician.gateway.start();
    expect(await technician.settle()).toMatchObject({ kind: 'installed', version: 'version 2' });
  });

  // Found by a stranger: the journal calls it staged, and it was kept before anybody looked for a list.
  test('so does one after a power cut between the arming and the journal', async () => {
    technician.gateway.service.target = '2';
    const { journal } = await technician.updater();
    const append = journal.append.bind(journal);
    journal.append = async (event) => {
      if (event.type === 'trial-armed') throw new Error('the power fails');
      return append(event);
    };
    await expect(technician.updateOnce(byHand)).rejects.toThrow('the power fails');
    technician.gateway.start();
    expect(await state()).toMatchObject({ phase: { kind: 'staged' } });
    technician.gateway.service.target = 'trust-1';
    technician.onListTaken = () => (technician.revocation = 'was revoked by list 2');
    expect(await technician.updateOnce(bySchedule)).toMatchObject({ kind: 'rebooting', goesBack: true });
  });

  test('and an unrelated one is acknowledged after it', async () => {
    await onTrial('trust-1');
    expect(await technician.updateOnce(bySchedule)).toEqual(taken);
    expect(technician.gateway.running).toBe('image of version 2');
    expect(await state()).toMatchObject({ installed: { version: { id: 'trust-1', name: 'version 2' } } });
  });

  test('another release is not opened, and a service that is away delays no health check', async () => {
    await onTrial('3');
    const updater = await technician.updater();
    expect(await updater.settle(ignore, signal)).toMatchObject({ kind: 'installed', version: 'version 2' });
    expect(opened).toEqual([]);
    technician.gateway.service.target = 'bad';
    await technician.updateOnce(byHand);
    technician.gateway.start();
    technician.gateway.service.failures = 1;
    expect(await technician.settle()).toMatchObject({ kind: 'rebooting', version: 'version bad' });
  });
});

test('without a hold, a window or a hook nothing is read twice', async () => {
  technician.gateway.service.target = '2';
  expect(await technician.update()).toMatchObject({ kind: 'installed', version: 'version 2' });
  expect(opened).toEqual(['2']);
});
