import { describe, expect, test } from 'vitest';

import { ServiceError } from '../../../../src/service/errors.ts';
import { blockedIn } from '../../update/version-entries.ts';
import { Technician } from './technician.ts';

const signal = new AbortController().signal;
const byHand = { reboot: true, force: false, manual: true };
const bySchedule = { ...byHand, manual: false };
const ignore = (): void => {};

/** Version 1 runs in slot B, and version 2 waits for its boot in slot A. */
async function waiting(options = byHand): Promise<Technician> {
  const technician = new Technician();
  await technician.update();
  technician.gateway.service.target = '2';
  await technician.updateOnce(options);
  return technician;
}

/** The same, with version 2 no longer trusted; `again`: its trial was interrupted, and it is to be armed once more. */
async function waitingInDoubt(when: 'at once' | 'again'): Promise<Technician> {
  const technician = await waiting({ ...byHand, reboot: false });
  if (when === 'again') {
    technician.gateway.reboot();
    technician.gateway.reboot();
  }
  technician.doubt = 'was revoked';
  return technician;
}

describe('an update that waits for its boot', () => {
  // Regression: the flag was heard at the staging alone, and the gateway went down.
  test('is not booted by a manual reboot', async () => {
    const technician = await waiting();
    technician.reboots = 0;
    const outcome = { kind: 'reboot-required', version: 'version 2' };
    expect(await technician.updateOnce({ ...byHand, reboot: false })).toMatchObject(outcome);
    technician.gateway.reboot();
    technician.gateway.reboot();
    expect(await technician.updateOnce({ ...byHand, reboot: false })).toMatchObject(outcome);
    expect(technician.reboots).toBe(0);
    expect(await technician.update()).toEqual({ kind: 'installed', version: 'version 2' });
  });

  test('is not booted for a file that is refused for its sake', async () => {
    const technician = await waiting();
    technician.reboots = 0;
    await expect(technician.install('image from a stick')).rejects.toMatchObject({ code: 'update-pending' });
    expect(technician.reboots).toBe(0);
  });

  // Regression: the service was not asked, and the release that it had withdrawn was booted.
  test.each([byHand, bySchedule, { ...byHand, reboot: false }])(
    'is discarded if the service offers another one by now (%o)',
    async (options) => {
      const technician = await waiting({ ...byHand, reboot: false });
      technician.gateway.service.target = '1';
      expect(await technician.updateOnce(options)).toMatchObject({ kind: 'up-to-date', version: 'version 1' });
      const { state } = (await technician.updater()).journal;
      expect(state).toMatchObject({ lastOutcome: { code: 'withdrawn' } });
      expect(blockedIn(state)).toEqual([]);
      expect(technician.gateway.bootloader.bootable).toEqual(['B']);
      technician.gateway.service.target = '2';
      expect(await technician.update()).toEqual({ kind: 'installed', version: 'version 2' });
    },
  );

  // Regression: it was withdrawn without being counted: two releases that alternated at each check rebooted the gateway
  // without a pause.
  test.each([byHand, bySchedule])(
    'and fell back in between has failed, whatever the service offers then (%o)',
    async (options) => {
      const technician = await waiting();
      technician.gateway.reboot();
      technician.gateway.reboot();
      technician.gateway.service.target = '1';
      expect(await technician.updateOnce(options)).toMatchObject({ kind: 'up-to-date', version: 'version 1' });
      const { state } = (await technician.updater()).journal;
      const reason = /^the bootloader fell back: .*; the service no longer offers it$/;
      expect(state.lastOutcome).toMatchObject({ outcome: 'rolled-back', code: 'trial-fell-back' });
      expect(state.lastOutcome?.reason).toMatch(reason);
      expect(state.versions.at(-1)).toMatchObject({ version: { id: '2' }, failed: 1, gaveUp: 1 });
      expect(technician.gateway.bootloader.bootable).toEqual(['B']);
    },
  );

  test('and alternating fallbacks are deferred after as many attempts as for a single release', async () => {
    const technician = new Technician();
    await technician.update();
    const begun: string[] = [];
    for (let looks = 0; looks < 40; looks += 1) {
      technician.gateway.service.target = looks % 2 === 0 ? '2' : '3';
      const outcome = await technician.updateOnce(bySchedule);
      if (outcome.kind !== 'rebooting') continue;
      begun.push(outcome.version);
      technician.gateway.reboot();
      technician.gateway.reboot();
    }
    for (const id of ['2', '3']) expect(begun.filter((version) => version === `version ${id}`)).toHaveLength(3);
    const blocked = blockedIn((await technician.updater()).journal.state);
    expect(new Set(blocked.map(({ version }) => version.id))).toEqual(new Set(['2', '3']));
  });

  test('and that lost its journal is reported as such', async () => {
    const technician = await waiting();
    technician.gateway.reboot();
    await technician.gateway.bootloader.markUnbootable('A', signal, 'disk-full');
    technician.gateway.reboot();
    technician.gateway.service.target = '1';
    await technician.updateOnce(bySchedule);
    const { lastOutcome } = (await technician.updater()).journal.state;
    expect(lastOutcome).toMatchObject({ outcome: 'rolled-back', code: 'disk-full' });
  });

  test('is booted if the service is unavailable', async () => {
    const technician = await waiting({ ...byHand, reboot: false });
    technician.gateway.service.targetVersion = async () => {
      throw new ServiceError({ code: 'connection-refused', why: 'nobody listens' });
    };
    expect(await technician.updateOnce(byHand)).toMatchObject({ kind: 'rebooting', version: 'version 2' });
  });

  // Regression: an unsigned one was armed again after its interrupted trial, although [trust] had been changed.
  test.each(['at once', 'again'] as const)('is not booted %s once it is no longer trusted', async (when) => {
    const technician = await waitingInDoubt(when);
    expect(await technician.settle()).toEqual({ kind: 'settled' });
    const { lastOutcome } = (await technician.updater()).journal.state;
    expect(lastOutcome).toMatchObject({ code: 'no-longer-trusted', reason: 'version version 2 was revoked' });
    expect(technician.gateway.bootloader.bootable).toEqual(['B']);
  });

  // Regression: despite a list that revoked it, a manual reboot booted it.
  test.each(['at once', 'again'] as const)('is not booted by a manual reboot %s either', async (when) => {
    const technician = await waitingInDoubt(when);
    technician.reboots = 0;
    await expect((await technician.updater()).reboot(undefined, signal)).rejects.toMatchObject({
      code: 'no-longer-trusted',
    });
    expect(technician.reboots).toBe(0);
    expect(technician.gateway.bootloader.bootable).toEqual(['B']);
    await (await technician.updater()).reboot(undefined, signal);
    expect(technician.reboots).toBe(1);
  });

  // Regression: the service named a list that revoked it, which was not even fetched before it was booted.
  test('from a file is discarded if the service offers another one than when it was installed', async () => {
    const technician = new Technician();
    await technician.update();
    await technician.install('image from a stick', false, 'stick', { reboot: false });
    expect(await technician.updateOnce({ ...byHand, reboot: false })).toMatchObject({ version: 'stick' });
    technician.gateway.service.target = '2';
    expect(await technician.updateOnce({ ...byHand, reboot: false })).toMatchObject({ version: 'version 2' });
    expect((await technician.updater()).journal.state.lastOutcome).toMatchObject({
      version: 'stick',
      code: 'withdrawn',
    });
  });

  // Regression: refused, with the advice to reboot into what the list revoked.
  test('yields to a trust list from an operator, and is fetched again', async () => {
    const technician = await waiting({ ...byHand, reboot: false });
    expect(await technician.installList()).toEqual({ kind: 'installed', version: 'trust-1' });
    expect(technician.gateway.bootloader.bootable).toEqual(['B']);
    expect(await technician.update()).toEqual({ kind: 'installed', version: 'version 2' });
  });

  test('is cancelled before it ran: nothing is rolled back, and nothing held against it', async () => {
    const technician = await waiting({ ...byHand, reboot: false });
    const updater = await technician.updater();
    expect(await updater.cancel(ignore, signal)).toEqual({ kind: 'cancelled', version: 'version 2' });
    const reason = 'cancelled by an operator before it ran';
    expect(updater.journal.state).toMatchObject({
      lastOutcome: { outcome: 'failed', code: 'cancelled', reason },
    });
    expect(blockedIn(updater.journal.state)).toEqual([]);
    expect(technician.gateway.bootloader.bootable).toEqual(['B']);
    expect(await technician.updateOnce(bySchedule)).toMatchObject({ kind: 'deferred', code: 'cancelled' });
    expect(await technician.update()).toEqual({ kind: 'installed', version: 'version 2' });
  });
});

describe('a rollback by hand', () => {
  async function running2(): Promise<Technician> {
    const technician = await waiting();
    technician.gateway.start();
    await technician.update();
    return technician;
  }

  // Regression: it was reported as a rollback of the version that had been running all the time.
  test('that is cancelled is not reported', async () => {
    const technician = await running2();
    await technician.rollbackUntilReboot({ ...byHand, reboot: false });
    const updater = await technician.updater();
    const { lastOutcome, reports } = updater.journal.state;
    expect(await updater.cancel(ignore, signal)).toEqual({ kind: 'cancelled', version: 'version 1' });
    expect(updater.journal.state).toMatchObject({ phase: { kind: 'idle' }, lastOutcome, reports });
  });

  test('reports that the previous version is no longer trusted', async () => {
    const technician = await running2();
    technician.doubt = 'is not signed';
    await technician.rollback();
    const { lastOutcome } = (await technician.updater()).journal.state;
    expect(lastOutcome?.reason).toContain('not verified: the release (it is not signed)');
  });

  // Regression: the paused update had ended, as after a rollback.
  test('that is refused leaves a paused update alone', async () => {
    const technician = await running2();
    const { journal } = await technician.gateway.ports();
    const version = { id: '3', name: 'version 3' };
    const attempt = { id: 'cut', version, by: 'service', startedAt: '' } as const;
    await journal.append({ type: 'staging-started', attempt, slot: 'B', at: '' });
    await journal.append({ type: 'slot-opened', target: 'gateway' });
    await expect(technician.rollbackUntilReboot(byHand)).rejects.toMatchObject({ code: 'no-previous-version' });
    expect((await technician.updater()).journal.state).toMatchObject({ phase: { kind: 'staging' }, reports: [] });
  });

  test('that ends a trial leaves the reboot to the operator on request, and may be repeated', async () => {
    const technician = await waiting();
    technician.gateway.start();
    technician.reboots = 0;
    const left = {
      kind: 'rolled-back',
      instead: 'version 1',
      version: 'version 2',
      reason: 'an operator rolled it back; slot B starts with the next boot: agent reboot',
    };
    expect(await technician.rollbackUntilReboot({ ...byHand, reboot: false })).toEqual(left);
    expect(await technician.rollbackUntilReboot({ ...byHand, reboot: false })).toEqual(left);
    expect(technician.reboots).toBe(0);
    expect(await technician.rollbackUntilReboot(byHand)).toMatchObject({ kind: 'rolled-back' });
    expect(technician.reboots).toBe(1);
  });
});

describe('a trial whose journal was damaged', () => {
  async function damaged(): Promise<Technician> {
    const technician = await waiting();
    technician.gateway.fs.put('/state/journal.json', 'not a journal');
    technician.gateway.start();
    return technician;
  }

  // Regression: the errors reported no trial, and a lost update.
  test('is committed manually', async () => {
    const technician = await damaged();
    expect(await (await technician.updater()).commit(ignore, signal)).toMatchObject({ kind: 'installed' });
    technician.gateway.start();
    expect(technician.gateway.running).toBe('image of version 2');
    expect((await technician.updater()).journal.state.phase.kind).toBe('idle');
  });

  test('is ended manually', async () => {
    const technician = await damaged();
    const reason = 'an operator rolled it back';
    expect(await technician.rollbackUntilReboot(byHand)).toMatchObject({ kind: 'rolled-back', reason });
    technician.gateway.start();
    expect(technician.gateway.running).toBe('image of version 1');
  });
});

describe('a trial that a list revoked', () => {
  async function onTrial(): Promise<Technician> {
    const technician = await waiting();
    technician.gateway.start();
    technician.revocation = 'was revoked by list 2';
    return technician;
  }

  // Regression: it was committed, with a warning that it was revoked.
  test('rolls back, and is blocked from then on', async () => {
    const technician = await onTrial();
    expect(await technician.settle()).toMatchObject({ kind: 'rebooting', goesBack: true });
    technician.gateway.start();
    await technician.settle();
    const { state } = (await technician.updater()).journal;
    expect(state).toMatchObject({ lastOutcome: { code: 'no-longer-trusted' }, installed: { version: { id: '1' } } });
    expect(blockedIn(state)).toHaveLength(1);
  });

  test('cannot be committed manually either', async () => {
    const technician = await onTrial();
    const refused = (await technician.updater()).commit(ignore, signal);
    await expect(refused).rejects.toMatchObject({ code: 'no-longer-trusted' });
    expect((await technician.updater()).journal.state.phase.kind).toBe('trial');
  });
});

describe('an unhealthy trial', () => {
  /** An operator makes the reboots. */
  async function sick(): Promise<Technician> {
    const technician = new Technician();
    await technician.update();
    technician.gateway.service.target = 'bad';
    await technician.updateOnce(byHand);
    technician.gateway.start();
    technician.reboots = 0;
    return technician;
  }
  const left = { kind: 'rolled-back', version: 'version bad' };
  const why = expect.stringContaining('slot B starts with the next boot: agent reboot') as string;

  // Regression: the error named an update in progress (rolling-back), without a hint that the old slot waits for a
  // reboot.
  test('is abandoned when an operator checks before a manual reboot, with a message that a reboot is needed', async () => {
    const technician = await sick();
    const options = { ...byHand, reboot: false };
    expect(await technician.updateOnce(options)).toMatchObject({ ...left, reason: why });
    expect(await technician.updateOnce(options)).toMatchObject({ ...left, reason: why });
    expect(technician.reboots).toBe(0);
    technician.gateway.start();
    expect(technician.gateway.running).toBe('image of version 1');
  });

  test('is abandoned when an operator brings a file, with the same message', async () => {
    const technician = await sick();
    const source = technician.gateway.service.firmware('3');
    const install = async () =>
      (await technician.updater()).installFile(source, 'stick', byHand, { onEvent: ignore, signal });
    expect(await install()).toMatchObject({ ...left, reason: why });
    expect(technician.reboots).toBe(0);
    technician.gateway.start();
    expect(await install()).toMatchObject({ kind: 'rebooting', version: 'stick' });
  });
});
