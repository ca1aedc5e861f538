import { describe, expect, test } from 'vitest';

import { mayTry } from '../../../../../src/update/policy/may-try.ts';
import { otherSlot } from '../../../../../src/update/slot.ts';
import { MemoryService } from '../../../../fakes/machine/memory/memory-service.ts';
import { PowerCut } from '../../../../fakes/machine/power.ts';
import { blockedIn } from '../../../update/version-entries.ts';
import { Technician } from '../technician.ts';

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
  // Regression: one power loss in its boot made the good old slot unbootable, and blocked its version.
  test('that a power cut interrupts is tried again', async () => {
    const technician = await withTwoVersions();
    await technician.rollbackUntilReboot(byHand);
    technician.gateway.reboot();
    technician.gateway.reboot();
    expect(await technician.update()).toMatchObject({ kind: 'deferred', code: 'manual-override' });
    expect(technician.gateway.running).toBe('image of version 1');
  });

  test('keeps the previous version, and blocks none, after a power loss in each trial', async () => {
    const technician = await withTwoVersions();
    await technician.rollbackUntilReboot(byHand);
    for (let trial = 0; trial < 2; trial += 1) {
      technician.gateway.reboot();
      technician.gateway.reboot();
      await technician.settle();
    }
    expect(await technician.settle()).toMatchObject({ kind: 'settled' });
    const { state } = (await technician.updater()).journal;
    expect([state.earlier[0]?.version.id, blockedIn(state)]).toEqual(['1', []]);
    expect(await technician.rollback()).toMatchObject({ code: 'manual-override' });
    expect(technician.gateway.running).toBe('image of version 1');
  });

  test('that is called off changes nothing', async () => {
    const technician = await withTwoVersions();
    const before = (await technician.updater()).journal.state;
    const { bootable } = technician.gateway.bootloader;
    await technician.rollbackUntilReboot({ ...byHand, reboot: false });
    await (await technician.updater()).cancel(() => {}, new AbortController().signal);
    const { journal } = await technician.updater();
    const { installed, earlier } = journal.state;
    expect({ installed, earlier }).toEqual({ installed: before.installed, earlier: before.earlier });
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
  test('stays pending after an operator’s file was rejected, interrupted or cancelled', async () => {
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

  test('stays pending after a trust list, which is not a release', async () => {
    const technician = await rolledBack();
    technician.gateway.service.target = 'trust-1';
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
  test('rejects a second request, naming the pending one and the remedy', async () => {
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

  test('is started if it is the pending one', async () => {
    const technician = await withTwoVersions();
    await technician.install('image from a stick', false, 'manual', { reboot: false });
    expect(technician.gateway.running).toBe('image of version 2');
    await technician.install('image from a stick');
    expect(technician.gateway.running).toBe('image from a stick');
  });
});

describe('--force', () => {
  // Regression: a file that was forced lifted the quarantine of every version for good.
  test('applies to its own request only', async () => {
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
  // Regression: "may be tried again", for a version that was never blocked.
  test('has nothing to lift of a version that was only begun', async () => {
    const technician = await withTwoVersions();
    technician.gateway.service.target = '3';
    expect(await technician.updateOnce(bySchedule)).toMatchObject({ kind: 'rebooting' });
    await expect((await technician.updater()).unblock('3')).rejects.toMatchObject({ code: 'version-not-blocked' });
  });

  test('lets a version be tried again, and no other', async () => {
    const technician = await withTwoVersions();
    technician.gateway.service.target = 'bad';
    await technician.update();
    await expect((await technician.updater()).unblock('3')).rejects.toMatchObject({ code: 'version-not-blocked' });
    expect(await (await technician.updater()).unblock('version bad')).toBe('version bad');
    expect(await technician.updateOnce(bySchedule)).toMatchObject({ kind: 'rebooting', version: 'version bad' });
  });
});

describe('what a technician installs', () => {
  // Regression: the version that was deferred when the file was installed replaced it at the next check.
  test('stays against the version that the service named then, though that was never installed', async () => {
    const technician = await withTwoVersions();
    technician.gateway.service.target = 'bad';
    await technician.update();
    await (await technician.updater()).unblock('version bad');
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
  test('waits for the maintenance window, unless it is forced', async () => {
    const technician = await withTwoVersions();
    technician.gateway.service.target = '3';
    await technician.updateOnce(byHand);
    technician.gateway.reboot();
    technician.gateway.reboot();
    technician.window = { fromMinute: 120, toMinute: 300 };
    expect(mayTry({ window: technician.window, minuteOfDay: 0 })).toMatchObject({ code: 'outside-window' });
    expect(await technician.updateOnce(bySchedule)).toMatchObject({ kind: 'deferred', code: 'outside-window' });
    expect(technician.gateway.bootloader.bootable).not.toContain('B');
    expect(await technician.updateOnce({ ...byHand, force: true })).toMatchObject({ kind: 'rebooting' });
  });

  test('waits for the operator who wanted to reboot manually', async () => {
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
