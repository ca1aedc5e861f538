import { beforeEach, describe, expect, test } from 'vitest';

import { Technician } from './technician.ts';

const signal = new AbortController().signal;
const byHand = { reboot: true, force: false, manual: true };
const bySchedule = { ...byHand, manual: false };
const inTheMorning = { fromMinute: 120, toMinute: 300 };
const held = { kind: 'deferred', version: 'version 2', code: 'outside-reboot-window' };
const rebooting = { kind: 'rebooting', version: 'version 2' };

let technician: Technician;

/** Version 1 runs in slot B, and the service names version 2. It is midnight. */
beforeEach(async () => {
  technician = new Technician();
  await technician.update();
  technician.gateway.service.target = '2';
  technician.rebootWindow = inTheMorning;
  technician.reboots = 0;
});

async function phase(): Promise<string> {
  return (await technician.updater()).journal.state.phase.kind;
}

describe('with a reboot window, what the daemon stages', () => {
  test('waits for it without being armed: neither an external reboot nor power loss starts it', async () => {
    expect(await technician.updateOnce(bySchedule)).toMatchObject(held);
    expect(await technician.updateOnce(bySchedule)).toMatchObject(held);
    expect(technician.gateway.bootloader.bootable).toEqual(['B']);
    technician.gateway.start();
    expect(technician.gateway.running).toBe('image of version 1');
    expect(await technician.settle()).toMatchObject(held);
    expect(technician.reboots).toBe(0);
    technician.minute = 120;
    expect(await technician.updateOnce(bySchedule)).toMatchObject(rebooting);
    technician.gateway.start();
    expect(await technician.update()).toEqual({ kind: 'installed', version: 'version 2' });
  });

  test('is booted immediately within it, whether or not installing may begin then', async () => {
    technician.minute = 0;
    technician.window = { fromMinute: 0, toMinute: 60 };
    expect(await technician.updateOnce(bySchedule)).toMatchObject(held);
    technician.minute = 299;
    expect(await technician.updateOnce(bySchedule)).toMatchObject(rebooting);
  });

  test('waits while the clock is not set', async () => {
    technician.minute = undefined;
    expect(await technician.updateOnce(bySchedule)).toMatchObject({ ...held, code: 'clock-unsynchronized' });
    expect((await technician.updater()).rebootWait).toMatchObject({ code: 'clock-unsynchronized', untilMs: undefined });
  });

  test('waits again after an interrupted trial, and after a reboot that missed it', async () => {
    technician.minute = 120;
    expect(await technician.updateOnce(bySchedule)).toMatchObject(rebooting);
    technician.minute = 300;
    expect(await technician.updateOnce(bySchedule)).toMatchObject(held);
    technician.gateway.reboot();
    technician.gateway.reboot();
    expect(await technician.updateOnce(bySchedule)).toMatchObject(held);
    expect(technician.gateway.bootloader.bootable).toEqual(['B']);
    technician.minute = 120;
    expect(await technician.updateOnce(bySchedule)).toMatchObject(rebooting);
  });

  test('is discarded if the service offers another one first', async () => {
    await technician.updateOnce(bySchedule);
    technician.gateway.service.target = '1';
    expect(await technician.updateOnce(bySchedule)).toMatchObject({ kind: 'up-to-date', version: 'version 1' });
    expect(await phase()).toBe('idle');
  });

  test('is shown with the next opening time of the window', async () => {
    expect((await technician.updater()).rebootWait).toBeUndefined();
    await technician.updateOnce(bySchedule);
    const wait = (await technician.updater()).rebootWait;
    expect(wait).toMatchObject({ reason: 'the reboot may begin between 02:00 and 05:00' });
    expect(new Date(wait?.untilMs ?? 0).getHours()).toBe(2);
    technician.minute = 120;
    expect((await technician.updater()).rebootWait).toBeUndefined();
  });
});

describe('an operator waits for no reboot window', () => {
  test.each([byHand, { ...bySchedule, force: true }])('who updates now (%o)', async (options) => {
    expect(await technician.updateOnce(options)).toMatchObject(rebooting);
  });

  test('who updates now what the daemon staged', async () => {
    await technician.updateOnce(bySchedule);
    expect(await technician.updateOnce(byHand)).toMatchObject(rebooting);
    technician.gateway.start();
    expect(await technician.update()).toEqual({ kind: 'installed', version: 'version 2' });
  });

  test.each([false, true])('to reboot: the staged update is armed and booted (after a fallback: %s)', async (again) => {
    technician.minute = again ? 120 : 0;
    await technician.updateOnce(bySchedule);
    if (again) {
      technician.gateway.reboot();
      technician.gateway.reboot();
    }
    technician.minute = 0;
    const updater = await technician.updater();
    expect(await updater.findUnarmed(signal)).toEqual({ version: 'version 2', slot: 'A' });
    technician.reboots = 0;
    await updater.reboot(undefined, signal);
    expect(technician.reboots).toBe(1);
    technician.gateway.start();
    expect(technician.gateway.running).toBe('image of version 2');
    expect(await technician.update()).toEqual({ kind: 'installed', version: 'version 2' });
  });

  test('to reboot into a release that is no longer trusted: it is rejected, and the running version stays', async () => {
    await technician.updateOnce(bySchedule);
    technician.doubt = 'was revoked';
    await expect((await technician.updater()).reboot(undefined, signal)).rejects.toMatchObject({
      code: 'no-longer-trusted',
    });
    expect(technician.reboots).toBe(0);
    expect(technician.gateway.bootloader.bootable).toEqual(['B']);
    expect(await phase()).toBe('idle');
  });

  test('to install a file, or roll back', async () => {
    technician.gateway.service.target = '1';
    await technician.install('image from a stick');
    expect(technician.gateway.running).toBe('image from a stick');
    expect(await technician.rollbackUntilReboot(byHand)).toMatchObject({ kind: 'rebooting' });
  });
});

test('a rollback waits for no reboot window', async () => {
  technician.gateway.service.target = 'bad';
  technician.minute = 120;
  expect(await technician.updateOnce(bySchedule)).toMatchObject({ kind: 'rebooting' });
  technician.minute = 300;
  technician.gateway.start();
  expect(await technician.settle()).toMatchObject({ kind: 'rebooting', goesBack: true });
});
