import { beforeEach, describe, expect, test } from 'vitest';

import { activeHold } from '../../../../src/update/journal/state.ts';
import { otherSlot } from '../../../../src/update/slot.ts';
import { Technician } from './technician.ts';

const signal = new AbortController().signal;
const byHand = { reboot: true, force: false, manual: true };
const unattended = { ...byHand, manual: false };

/** Version 1 is installed, 2 is named. */
async function begin(): Promise<Technician> {
  const technician = new Technician();
  await technician.update();
  technician.gateway.service.target = '2';
  return technician;
}

describe('an update on hold', () => {
  test('is not installed by any means, also after a restart, until updates resume', async () => {
    const technician = await begin();
    await (await technician.updater()).hold({ reason: 'harvest' });
    technician.gateway.start();
    const held = { kind: 'deferred', version: 'version 2', code: 'on-hold' };
    expect(await technician.updateOnce(unattended)).toMatchObject(held);
    expect(await technician.updateOnce(byHand)).toMatchObject({
      ...held,
      reason: 'an operator paused updates (harvest); agent resume resumes them',
    });
    expect(await technician.install('image of a stick')).toMatchObject({ kind: 'deferred', code: 'on-hold' });
    expect(await (await technician.updater()).resume()).toBe(true);
    expect(await (await technician.updater()).resume()).toBe(false);
    expect(await technician.update()).toEqual({ kind: 'installed', version: 'version 2' });
  });

  test('pauses, and resumes afterwards', async () => {
    const technician = await begin();
    const { journal } = await technician.gateway.ports();
    const attempt = { id: 'cut', version: { id: '2', name: 'version 2' }, by: 'service', startedAt: '' } as const;
    const slot = otherSlot(technician.gateway.bootloader.booted);
    await journal.append({ type: 'staging-started', attempt, slot, at: '' });
    const updater = await technician.updater();
    await updater.hold({});
    expect(await updater.updateNow(unattended, () => {}, signal)).toMatchObject({ code: 'on-hold' });
    expect(updater.journal.state.phase).toMatchObject({ kind: 'staging', attempt: { id: 'cut' } });
    await updater.resume();
    expect(await technician.update()).toEqual({ kind: 'installed', version: 'version 2' });
    expect((await technician.updater()).journal.state.lastOutcome).toMatchObject({ attempt: 'cut' });
  });

  test('is installed all the same by force, for that order alone', async () => {
    const technician = await begin();
    await (await technician.updater()).hold({});
    expect(await technician.updateOnce({ ...byHand, force: true })).toMatchObject({ kind: 'rebooting' });
    technician.gateway.start();
    expect(await technician.updateOnce(byHand)).toEqual({ kind: 'installed', version: 'version 2' });
    technician.gateway.service.target = '3';
    expect(await technician.updateOnce(byHand)).toMatchObject({ code: 'on-hold' });
  });

  // Regression: a power loss in the trial rebooted the gateway again, in the middle of a later hold.
  test.each(['--update-now --force', 'install'])(
    'starts no further trial that %s ordered, until updates resume',
    async (order) => {
      const technician = await begin();
      const { gateway } = technician;
      if (order === 'install') await technician.install('image of version 2', false, 'version 2', { reboot: false });
      else await technician.updateOnce({ ...byHand, force: true });
      gateway.reboot();
      gateway.reboot();
      const { reboots } = technician;
      await (await technician.updater()).hold({});
      expect(await technician.updateOnce(unattended)).toMatchObject({ kind: 'deferred', code: 'on-hold' });
      expect(technician.reboots).toBe(reboots);
      await (await technician.updater()).resume();
      expect(await technician.updateOnce(byHand)).toMatchObject({ kind: 'rebooting', version: 'version 2' });
    },
  );

  // Regression: `agent --update-now` rebooted into an update that was staged before the hold.
  test('does not boot an update that is armed, unless it is forced', async () => {
    const technician = await begin();
    await technician.updateOnce({ ...byHand, reboot: false });
    await (await technician.updater()).hold({});
    const { reboots } = technician;
    expect(await technician.updateOnce(byHand)).toMatchObject({ kind: 'deferred', code: 'on-hold' });
    expect(technician.reboots).toBe(reboots);
    expect(await technician.updateOnce({ ...byHand, force: true })).toMatchObject({ kind: 'rebooting' });
  });

  test('does not repeat a reboot that failed', async () => {
    const technician = await begin();
    expect(await technician.updateOnce(unattended)).toMatchObject({ kind: 'rebooting' });
    await (await technician.updater()).hold({});
    expect(await technician.updateOnce(unattended)).toMatchObject({ kind: 'deferred', code: 'on-hold' });
    expect(technician.reboots).toBe(2);
  });

  test('does not prevent a rollback', async () => {
    const technician = await begin();
    await technician.update();
    await (await technician.updater()).hold({});
    expect(await technician.rollback()).toMatchObject({ kind: 'deferred', code: 'on-hold' });
    expect((await technician.updater()).journal.state.installed?.version.name).toBe('version 1');
  });

  test('ends automatically at its time, but never by an unsynchronized clock', async () => {
    const held = { since: '2026-12-01T10:00:00.000Z', until: '2026-12-01T14:00:00.000Z' };
    expect(activeHold(held, Date.parse('2026-12-01T13:59:59Z'))).toBe(held);
    expect(activeHold(held, Date.parse('2026-12-01T14:00:00Z'))).toBeUndefined();
    expect(activeHold(held, Date.parse('1970-01-01T00:00:00Z'))).toBe(held);
    expect(activeHold(held, Date.parse('2200-01-01T00:00:00Z'))).toBe(held);
  });

  test('has no end where the clock is not set', async () => {
    const technician = await begin();
    const order = (await technician.updater()).hold({ durationMs: 3_600_000 });
    await expect(order).rejects.toMatchObject({ code: 'hold-needs-clock' });
  });
});

// Regression: held until 2040, although an operator asked for an hour, without a way to end it.
test('lasts an hour of the corrected clock, although the clock was years fast at its beginning', async () => {
  const technician = await begin();
  technician.nowMs = Date.UTC(2040, 0, 1);
  await (await technician.updater()).hold({ durationMs: 3_600_000 });
  technician.nowMs = Date.UTC(2027, 0, 1);
  technician.isClockSet = false;
  expect(await technician.updateOnce(unattended)).toMatchObject({ code: 'on-hold', reason: /2040/ });
  technician.isClockSet = true;
  expect(await technician.updateOnce(unattended)).toMatchObject({ reason: /2027-01-01T01:00/ });
  technician.nowMs += 3_600_000;
  expect(await technician.updateOnce(unattended)).toMatchObject({ kind: 'rebooting' });
});

describe('a configuration file that the next start of the agent would refuse', () => {
  const held = { kind: 'deferred', code: 'config-unusable', reason: 'line 3 of config.toml is no TOML' };
  let technician: Technician;

  beforeEach(async () => {
    technician = await begin();
    technician.configProblem = held.reason;
  });

  test('starts no update whose trial would fail, and counts no failure; with the file fixed, it starts', async () => {
    for (let look = 0; look < 5; look += 1) expect(await technician.updateOnce(unattended)).toMatchObject(held);
    expect(await technician.updateOnce(byHand)).toMatchObject(held);
    expect(await technician.install('image from a stick')).toMatchObject(held);
    expect((await technician.updater()).journal.state).toMatchObject({
      phase: { kind: 'idle' },
      versions: [{ version: { id: '1' }, begun: 0 }],
    });
    technician.configProblem = undefined;
    expect(await technician.update()).toEqual({ kind: 'installed', version: 'version 2' });
  });

  test('does not stop a forced update', async () => {
    expect(await technician.updateOnce({ ...byHand, force: true })).toMatchObject({ kind: 'rebooting' });
  });

  test('does not stop a trust list', async () => {
    technician.gateway.service.target = 'trust-1';
    expect(await technician.updateOnce(unattended)).toEqual({ kind: 'installed', version: 'trust-1' });
  });
});
