import { describe, expect, test } from 'vitest';

import { windowHold } from '../../../../src/update/policy/plan.ts';
import { otherSlot } from '../../../../src/update/slot.ts';
import { MemoryService } from '../../../fakes/machine/memory/memory-service.ts';
import { PowerCut } from '../../../fakes/machine/power.ts';
import { blockedIn } from '../../update/version-entries.ts';
import { Technician } from './technician.ts';

const byHand = { reboot: true, force: false, manual: true };
const { signal } = new AbortController();
const bySchedule = { ...byHand, manual: false };

async function withTwoVersions(): Promise<Technician> {
  const technician = new Technician();
  await technician.update();
  technician.gateway.service.target = '2';
  await technician.update();
  return technician;
}

describe('a rollback by hand', () => {
  // Regression: one power cut in its boot made the good old slot unbootable, and banned its version.
  test('that a power cut interrupts is tried again', async () => {
    const technician = await withTwoVersions();
    await technician.rollbackUntilReboot(byHand);
    technician.gateway.reboot();
    technician.gateway.reboot();
    expect(await technician.update()).toMatchObject({ kind: 'deferred', code: 'manual-override' });
    expect(technician.gateway.running).toBe('image of version 1');
  });

  test('that power cuts interrupt each time leaves the way back, and bans nothing', async () => {
    const technician = await withTwoVersions();
    await technician.rollbackUntilReboot(byHand);
    for (let trial = 0; trial < 2; trial += 1) {
      technician.gateway.reboot();
      technician.gateway.reboot();
      await technician.settle();
    }
    expect(await technician.settle()).toMatchObject({ kind: 'settled' });
    const { state } = (await technician.updater()).journal;
    expect([state.previous?.version.id, blockedIn(state)]).toEqual(['1', []]);
    expect(await technician.rollback()).toMatchObject({ code: 'manual-override' });
    expect(technician.gateway.running).toBe('image of version 1');
  });

  test('that is called off changes nothing', async () => {
    const technician = await withTwoVersions();
    const before = (await technician.updater()).journal.state;
    const { bootable } = technician.gateway.bootloader;
    await technician.rollbackUntilReboot({ ...byHand, reboot: false });
    await technician.rollbackUntilReboot(byHand);
    const { journal } = await technician.updater();
    const { installed, previous } = journal.state;
    expect({ installed, previous }).toEqual({ installed: before.installed, previous: before.previous });
    expect(blockedIn(journal.state)).toEqual([]);
    expect(technician.gateway.bootloader.bootable).toEqual(bootable);
    expect(await technician.update()).toMatchObject({ kind: 'up-to-date', version: 'version 2' });
  });
});

describe('that a version was rolled back', () => {
  async function rolledBack(): Promise<Technician> {
    const technician = new Technician();
    await technician.update();
    technician.gateway.service.target = 'bad';
    await technician.update();
    return technician;
  }

  async function last(technician: Technician): Promise<unknown> {
    return (await technician.updater()).journal.state.lastOutcome;
  }

  async function beRefused(technician: Technician): Promise<void> {
    const source = new MemoryService(new Map([['file', Buffer.from('an image of somebody')]]), 'file').firmware('file');
    const order = (await technician.updater()).installFile(source, 'a file', byHand, { onEvent: () => {}, signal });
    await expect(order).rejects.toMatchObject({ code: 'signature-invalid' });
  }

  const theEnd = { version: 'version bad', outcome: 'rolled-back' };

  // Regression: any file that was refused made of it that all is well.
  test('is not forgotten for a file of a person that was refused, interrupted or cancelled', async () => {
    const technician = await rolledBack();
    await beRefused(technician);
    expect(await last(technician)).toMatchObject(theEnd);
    const updater = await technician.updater();
    for (const id of ['one', 'two']) {
      const attempt = { id, version: { name: 'a file' }, by: 'file', startedAt: '' } as const;
      const slot = otherSlot(technician.gateway.bootloader.booted);
      await updater.journal.append({ type: 'staging-started', attempt, slot, at: '' });
      expect(await last(technician)).toMatchObject(theEnd);
    }
    await updater.cancel(() => {}, signal);
    expect(await last(technician)).toMatchObject(theEnd);
  });

  test('is not forgotten for a list of keys and revocations either, which is no firmware', async () => {
    const technician = await rolledBack();
    technician.gateway.service.target = 'list';
    await technician.update();
    expect(await last(technician)).toMatchObject(theEnd);
  });

  test('is over with what is installed after it, and where nothing was amiss a refused file is the last', async () => {
    const technician = await rolledBack();
    await technician.install('image from a stick', true);
    expect(await last(technician)).toMatchObject({ version: 'manual', outcome: 'installed' });
    await beRefused(technician);
    expect(await last(technician)).toMatchObject({ version: 'a file', outcome: 'refused', by: 'file' });
  });
});

describe('a file, while another version waits for its boot,', () => {
  // Regression: exit 0, and the gateway started the other one.
  test('is not dropped in silence: it is said what waits, and what to do', async () => {
    const technician = await withTwoVersions();
    technician.gateway.service.target = '3';
    expect(await technician.updateOnce({ ...byHand, reboot: false })).toMatchObject({ kind: 'reboot-required' });
    const refused = {
      code: 'update-pending',
      exit: 'tryAgain',
      advice: expect.stringContaining('agent cancel') as unknown,
    };
    await expect(technician.install('image from a stick')).rejects.toMatchObject(refused);
    await (await technician.updater()).cancel(() => {}, AbortSignal.timeout(10_000));
    await technician.install('image from a stick');
    expect(technician.gateway.running).toBe('image from a stick');
  });

  test('is started, if it is what waits', async () => {
    const technician = await withTwoVersions();
    await technician.install('image from a stick', false, 'manual', { reboot: false });
    expect(technician.gateway.running).toBe('image of version 2');
    await technician.install('image from a stick');
    expect(technician.gateway.running).toBe('image from a stick');
  });
});

describe('--force', () => {
  // Regression: a file that was forced lifted the quarantine of every version for good.
  test('holds for the order that it was said with, and for no other', async () => {
    const technician = await withTwoVersions();
    technician.gateway.service.target = 'bad';
    expect(await technician.update()).toMatchObject({ kind: 'deferred', code: 'quarantined' });
    expect(await technician.install('image from a stick', true)).toMatchObject({ code: 'manual-override' });
    technician.gateway.service.target = '3';
    await technician.update();
    technician.gateway.service.target = 'bad';
    expect(await technician.update()).toMatchObject({ kind: 'deferred', code: 'quarantined' });
  });

  test('is remembered where the order is interrupted', async () => {
    const technician = await withTwoVersions();
    technician.gateway.service.target = 'bad';
    await technician.update();
    technician.gateway.power.cutAfter(12);
    await expect(technician.updateOnce({ ...byHand, force: true })).rejects.toThrow(PowerCut);
    technician.gateway.reboot();
    expect((await technician.updater()).journal.state.phase).toMatchObject({
      kind: 'staging',
      attempt: { forced: true },
    });
    expect(await technician.updateOnce(bySchedule)).toMatchObject({ kind: 'rebooting', version: 'version bad' });
  });
});

describe('agent unblock', () => {
  // Regression: "may be tried again", of what was never held back.
  test('has nothing to lift of a version that was only begun', async () => {
    const technician = await withTwoVersions();
    technician.gateway.service.target = '3';
    expect(await technician.updateOnce(bySchedule)).toMatchObject({ kind: 'rebooting' });
    await expect((await technician.updater()).forget('3')).rejects.toMatchObject({ code: 'version-not-blocked' });
  });

  test('lets a version be tried again, and no other', async () => {
    const technician = await withTwoVersions();
    technician.gateway.service.target = 'bad';
    await technician.update();
    await expect((await technician.updater()).forget('3')).rejects.toMatchObject({ code: 'version-not-blocked' });
    expect(await (await technician.updater()).forget('version bad')).toEqual(['version bad']);
    expect(await technician.updateOnce(bySchedule)).toMatchObject({ kind: 'rebooting', version: 'version bad' });
  });
});

describe('what a technician installs', () => {
  // Regression: the version that was held back when the file was installed replaced it at the next look.
  test('stays against the version that the service named then, though that was never installed', async () => {
    const technician = await withTwoVersions();
    technician.gateway.service.target = 'bad';
    await technician.update();
    await (await technician.updater()).forget('bad');
    await technician.install('image from a stick');
    expect(await technician.update()).toMatchObject({ kind: 'deferred', code: 'manual-override' });
    technician.gateway.service.target = '3';
    expect(await technician.update()).toMatchObject({ kind: 'installed', version: 'version 3' });
  });

  test('stays on a gateway that has never asked the service, against what the first look finds', async () => {
    const technician = new Technician();
    technician.gateway.service.target = '2';
    expect(await technician.install('image from a stick')).toMatchObject({ code: 'manual-override' });
    technician.gateway.service.target = '3';
    expect(await technician.update()).toMatchObject({ kind: 'installed', version: 'version 3' });
  });

  // Regression: a rebuilt hotfix that was called 1.4.0 was reported as the service's 1.4.0.
  test('is not taken for the version of the service that has its name', async () => {
    const technician = new Technician();
    await technician.install('another image', false, 'version 2');
    technician.gateway.service.target = '2';
    expect(await technician.update()).toMatchObject({ kind: 'installed', version: 'version 2' });
    expect(technician.gateway.running).toBe('image of version 2');
  });
});

describe('a trial that goes on after a fall back', () => {
  test('waits for the maintenance window, unless a person forces it', async () => {
    const technician = await withTwoVersions();
    technician.gateway.service.target = '3';
    await technician.updateOnce(byHand);
    technician.gateway.reboot();
    technician.gateway.reboot();
    technician.window = { fromMinute: 120, toMinute: 300 };
    expect(windowHold(technician.window, 0)).toMatchObject({ code: 'outside-window' });
    expect(await technician.updateOnce(bySchedule)).toMatchObject({ kind: 'deferred', code: 'outside-window' });
    expect(technician.gateway.bootloader.bootable).not.toContain('B');
    expect(await technician.updateOnce({ ...byHand, force: true })).toMatchObject({ kind: 'rebooting' });
  });

  test('waits for the person who wanted to reboot by hand', async () => {
    const technician = await withTwoVersions();
    technician.gateway.service.target = '3';
    await technician.updateOnce({ ...byHand, reboot: false });
    technician.gateway.reboot();
    technician.gateway.reboot();
    expect(await technician.updateOnce(bySchedule)).toMatchObject({ kind: 'reboot-required', version: 'version 3' });
    technician.gateway.start();
    expect(await technician.update()).toMatchObject({ version: 'version 3' });
  });
});
