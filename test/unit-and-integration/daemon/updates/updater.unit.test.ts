import { describe, expect, test } from 'vitest';

import { otherSlot } from '../../../../src/update/slot.ts';
import { Technician } from './technician.ts';

const signal = new AbortController().signal;
const byHand = { reboot: true, force: false, manual: true };

describe('a firmware that waits for a reboot by hand', () => {
  test('is given up by a rollback: nothing reboots, and it does not come again by itself', async () => {
    const technician = new Technician();
    await technician.update();
    const running = technician.gateway.running;
    technician.gateway.service.target = '2';
    const waiting = await (await technician.updater()).updateNow({ ...byHand, reboot: false }, () => {}, signal);
    expect(waiting).toMatchObject({ kind: 'reboot-required', version: 'version 2' });
    const given = await (await technician.updater()).rollback(byHand, () => {}, signal);
    expect(given).toEqual({ kind: 'cancelled', version: 'version 2' });
    technician.gateway.start();
    expect(technician.gateway.running).toBe(running);
    expect(await technician.updateOnce({ ...byHand, manual: false })).toMatchObject({
      kind: 'deferred',
      code: 'cancelled',
    });
  });
});

describe('what a person cancels', () => {
  const unattended = { ...byHand, manual: false };

  /** The transfer of version 2 was cut off in its middle, by whatever. */
  async function interrupted(): Promise<Technician> {
    const technician = new Technician();
    await technician.update();
    technician.gateway.service.target = '2';
    const { journal } = await technician.gateway.ports();
    const version = { id: '2', name: 'version 2' };
    const attempt = { id: 'cut', version, by: 'service', startedAt: '' } as const;
    const slot = otherSlot(technician.gateway.bootloader.booted);
    await journal.append({ type: 'staging-started', attempt, slot, at: '' });
    return technician;
  }

  // Regression: a file that was cancelled, too, let the version that the service names be installed by itself.
  test('stays cancelled, whatever file is begun or cancelled after it', async () => {
    const technician = await interrupted();
    await (await technician.updater()).cancel(() => {}, signal);
    await technician.install('image from a stick', false, 'manual', { reboot: false });
    expect(await (await technician.updater()).cancel(() => {}, signal)).toMatchObject({ kind: 'cancelled' });
    expect(await technician.updateOnce(unattended)).toMatchObject({ kind: 'deferred', code: 'cancelled' });
  });

  test('has ended, is reported, and is begun again only when a person asks for it', async () => {
    const technician = await interrupted();
    const updater = await technician.updater();
    expect(await updater.cancel(() => {}, signal)).toEqual({ kind: 'cancelled', version: 'version 2' });
    expect(updater.journal.state).toMatchObject({ phase: { kind: 'idle' }, lastOutcome: { code: 'cancelled' } });
    expect(await updater.updateNow(unattended, () => {}, signal)).toMatchObject({
      kind: 'deferred',
      code: 'cancelled',
    });
    expect(await technician.update()).toEqual({ kind: 'installed', version: 'version 2' });
    technician.gateway.service.target = '1';
    await technician.update();
    technician.gateway.service.target = '2';
    expect(await (await technician.updater()).updateNow(unattended, () => {}, signal)).toMatchObject({
      kind: 'rebooting',
    });
  });

  test('does not hold back what the service names next', async () => {
    const technician = await interrupted();
    const updater = await technician.updater();
    await updater.cancel(() => {}, signal);
    technician.gateway.service.target = '3';
    expect(await updater.updateNow(unattended, () => {}, signal)).toMatchObject({ kind: 'rebooting' });
  });

  test('is never a trial that runs', async () => {
    const technician = new Technician();
    await technician.update();
    technician.gateway.service.target = '2';
    await (await technician.updater()).updateNow(byHand, () => {}, signal);
    technician.gateway.start();
    const updater = await technician.updater();
    await expect(updater.cancel(() => {}, signal)).rejects.toMatchObject({ code: 'trial-in-progress' });
    expect(updater.journal.state.phase.kind).toBe('trial');
  });

  test('may be nothing', async () => {
    const updater = await new Technician().updater();
    expect(await updater.cancel(() => {}, signal)).toEqual({ kind: 'nothing-to-cancel', version: 'what runs' });
  });
});

describe('a trial that ends well', () => {
  test('is told as installed, not as nothing to do', async () => {
    const technician = new Technician();
    expect(await technician.update()).toEqual({ kind: 'installed', version: 'version 1' });
    expect(await technician.update()).toEqual({ kind: 'up-to-date', version: 'version 1' });
  });
});

describe('what a person installed', () => {
  // Seen by the kill tests: the service's version came back at the next look and replaced the person's file.
  test('stays, from a file after a rollback, until the service names another version', async () => {
    const technician = new Technician();
    await technician.update();
    technician.gateway.service.target = '2';
    await technician.update();
    // seen: told of both that it was installed by hand
    const stays = { kind: 'deferred', code: 'manual-override' };
    const wentBack = 'a person went back to version 1';
    expect(await technician.rollback()).toMatchObject({ ...stays, reason: wentBack });
    const byHand = 'manual was installed by hand instead of it';
    expect(await technician.install('image from a stick')).toMatchObject({ ...stays, reason: byHand });
    expect(technician.gateway.running).toBe('image from a stick');
    technician.gateway.service.target = '3';
    expect(await technician.update()).toMatchObject({ kind: 'installed', version: 'version 3' });
  });

  test('overrides nothing any more once the service names it, too', async () => {
    const technician = new Technician();
    await technician.update();
    technician.gateway.service.target = '2';
    await technician.update();
    await technician.rollback();
    technician.gateway.service.target = '1';
    expect(await technician.update()).toMatchObject({ kind: 'up-to-date', version: 'version 1' });
    expect(await technician.rollback()).toMatchObject({ kind: 'deferred', code: 'manual-override' });
    expect(technician.gateway.running).toBe('image of version 2');
  });
});
