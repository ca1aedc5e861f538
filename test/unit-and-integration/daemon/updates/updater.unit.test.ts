import { describe, expect, test } from 'vitest';

import { otherSlot } from '../../../../src/update/slot.ts';
import { Technician } from './technician.ts';

const signal = new AbortController().signal;
const byHand = { reboot: true, force: false, manual: true };

describe('an update that waits for a manual reboot', () => {
  test('is discarded by a rollback: nothing reboots, and it is not offered again', async () => {
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

describe('a cancelled update', () => {
  const unattended = { ...byHand, manual: false };

  /** The transfer of version 2 was interrupted in the middle. */
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

  // Regression: cancelling a file as well made the service's version install automatically.
  test('stays cancelled, whatever file is begun or cancelled after it', async () => {
    const technician = await interrupted();
    await (await technician.updater()).cancel(() => {}, signal);
    await technician.install('image from a stick', false, 'manual', { reboot: false });
    expect(await (await technician.updater()).cancel(() => {}, signal)).toMatchObject({ kind: 'cancelled' });
    expect(await technician.updateOnce(unattended)).toMatchObject({ kind: 'deferred', code: 'cancelled' });
  });

  test('has ended, is reported, and begins again only on an operator’s request', async () => {
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

  test('does not defer the next offer of the service', async () => {
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
    expect(await updater.cancel(() => {}, signal)).toEqual({
      kind: 'nothing-to-cancel',
      version: 'the running version',
    });
  });
});

describe('a successful trial', () => {
  test('is reported as installed, instead of nothing to do', async () => {
    const technician = new Technician();
    expect(await technician.update()).toEqual({ kind: 'installed', version: 'version 1' });
    expect(await technician.update()).toEqual({ kind: 'up-to-date', version: 'version 1' });
  });
});

describe('a manual rollback', () => {
  // Regression: "version 1 is staged in slot A" looked like an update.
  test.each([
    [true, 'rebooting'],
    [false, 'reboot-required'],
  ])('is reported as one, with a reboot: %j', async (reboot, kind) => {
    const technician = new Technician();
    await technician.update();
    technician.gateway.service.target = '2';
    await technician.update();
    const staged = { version: 'version 1', isRollback: true };
    expect(await technician.rollbackUntilReboot({ ...byHand, reboot })).toMatchObject({ kind, ...staged });
    expect(await technician.settle()).toMatchObject({ kind, ...staged });
  });
});

describe('a manually installed version', () => {
  // Regression, found by the kill tests: the service's version returned at the next check and replaced the operator's
  // file.
  test('stays, from a file after a rollback, until the service names another version', async () => {
    const technician = new Technician();
    await technician.update();
    technician.gateway.service.target = '2';
    await technician.update();
    // regression: both were reported as installed manually
    const stays = { kind: 'deferred', code: 'manual-override' };
    const wentBack = 'an operator rolled back to version 1';
    expect(await technician.rollback()).toMatchObject({ ...stays, reason: wentBack });
    const byHand = 'an operator installed manual instead';
    expect(await technician.install('image from a stick')).toMatchObject({ ...stays, reason: byHand });
    expect(technician.gateway.running).toBe('image from a stick');
    technician.gateway.service.target = '3';
    expect(await technician.update()).toMatchObject({ kind: 'installed', version: 'version 3' });
  });

  test('is no longer an override once the service offers it, too', async () => {
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
