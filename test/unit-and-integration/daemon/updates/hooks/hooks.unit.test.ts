import { beforeEach, describe, expect, test } from 'vitest';

import { UpdateError } from '../../../../../src/update/errors.ts';
import { Hooks } from '../../../../../src/update/hooks/hooks.ts';
import type { ConsentHook, NotifyHook } from '../../../../../src/update/hooks/hooks.ts';
import type { PendingHook } from '../../../../../src/update/journal/state.ts';
import { blockedIn } from '../../../update/version-entries.ts';
import { Technician } from '../technician.ts';

const byHand = { reboot: true, force: false, manual: true };
const bySchedule = { ...byHand, manual: false };
const words = 'the press is running';
const notNow = { kind: 'deferred', version: 'version 2', code: 'hook-deferred', reason: words };

let technician: Technician;
let asked: string[];

/** Version 1 runs in slot B, and the service names version 2. */
beforeEach(async () => {
  technician = new Technician();
  await technician.update();
  technician.gateway.service.target = '2';
  asked = [];
});

/** From now on this hook does not consent, for this reason. */
function refuse(hook: string, code: 'hook-deferred' | 'hook-rejected'): void {
  const ask: ConsentHook = async (name) => {
    asked.push(name);
    if (name === hook) throw new UpdateError(code, words);
  };
  technician.hooks = { ...silent, ask, askInTurn: ask };
}

const silent: NonNullable<Technician['hooks']> = {
  ask: async () => {},
  askInTurn: async () => {},
  pause: undefined,
  wants: () => false,
  tell: async () => undefined,
  trouble: undefined,
};

async function state() {
  return (await technician.updater()).journal.state;
}

describe('before an update is transferred', () => {
  test('the hook may put it off: nothing has begun, and nothing is held against it', async () => {
    refuse('before_install', 'hook-deferred');
    for (let look = 0; look < 5; look += 1) expect(await technician.updateOnce(bySchedule)).toMatchObject(notNow);
    expect(await technician.updateOnce(byHand)).toMatchObject(notNow);
    expect(await state()).toMatchObject({ phase: { kind: 'idle' }, lastOutcome: { version: 'version 1' } });
    refuse('nobody', 'hook-rejected');
    expect(await technician.update()).toEqual({ kind: 'installed', version: 'version 2' });
    expect(asked).toEqual([...Array<string>(6).fill('before_install'), 'before_install', 'before_reboot']);
  });

  test('the hook may say no: that is the end of the attempt, with its words, and no quarantine', async () => {
    refuse('before_install', 'hook-rejected');
    await expect(technician.updateOnce(bySchedule)).rejects.toMatchObject({ code: 'hook-rejected', message: words });
    expect(await state()).toMatchObject({
      phase: { kind: 'idle' },
      lastOutcome: { version: 'version 2', outcome: 'refused', code: 'hook-rejected', reason: words },
    });
    expect(blockedIn(await state())).toEqual([]);
    await expect(technician.updateOnce(bySchedule)).rejects.toMatchObject({ code: 'hook-rejected' });
    expect(await technician.updateOnce(bySchedule)).toMatchObject({ kind: 'deferred', code: 'retry-backoff' });
    await expect(technician.updateOnce(byHand)).rejects.toMatchObject({ code: 'hook-rejected' });
    expect(await technician.updateOnce(bySchedule)).toMatchObject({ kind: 'deferred', code: 'attempts-exhausted' });
    technician.gateway.service.target = '3';
    refuse('nobody', 'hook-rejected');
    expect(await technician.update()).toEqual({ kind: 'installed', version: 'version 3' });
  });

  test('a forced update and a rollback call no hook', async () => {
    refuse('before_install', 'hook-rejected');
    expect(await technician.updateOnce({ ...byHand, force: true })).toMatchObject({ kind: 'rebooting' });
    technician.gateway.start();
    expect(await technician.settle()).toMatchObject({ kind: 'installed' });
    expect(await technician.rollbackUntilReboot(byHand)).toMatchObject({ kind: 'rebooting' });
    expect(asked).toEqual([]);
  });
});

describe('before what is staged is booted', () => {
  test('the hook may put it off: it stays unarmed, over restarts, until the hook consents', async () => {
    refuse('before_reboot', 'hook-deferred');
    expect(await technician.updateOnce(bySchedule)).toMatchObject(notNow);
    technician.gateway.start();
    expect(technician.gateway.running).toBe('image of version 1');
    expect(await technician.settle()).toMatchObject(notNow);
    expect(technician.gateway.bootloader.bootable).toEqual(['B']);
    refuse('nobody', 'hook-rejected');
    expect(await technician.update()).toEqual({ kind: 'installed', version: 'version 2' });
  });

  test.each(['at once', 'later'])('the hook may reject %s: the staged update is discarded', async (when) => {
    refuse('before_reboot', when === 'later' ? 'hook-deferred' : 'hook-rejected');
    if (when === 'later') await technician.updateOnce(bySchedule);
    refuse('before_reboot', 'hook-rejected');
    await expect(technician.updateOnce(bySchedule)).rejects.toMatchObject({ code: 'hook-rejected', message: words });
    expect(technician.gateway.bootloader.bootable).toEqual(['B']);
    expect(await state()).toMatchObject({
      phase: { kind: 'idle' },
      lastOutcome: { version: 'version 2', outcome: 'failed', code: 'hook-rejected', reason: words },
    });
    expect(blockedIn(await state())).toEqual([]);
  });

  // Regression: "The gateway reboots now", into the old firmware, while the application worked.
  test('no manual reboot happens while the hook defers', async () => {
    refuse('before_reboot', 'hook-deferred');
    await technician.updateOnce(bySchedule);
    const { signal } = new AbortController();
    technician.reboots = 0;
    const reboot = (await technician.updater()).reboot(undefined, signal);
    await expect(reboot).rejects.toMatchObject({ code: 'hook-deferred', message: words });
    expect(technician.reboots).toBe(0);
    expect(await state()).toMatchObject({ phase: { kind: 'staged' } });
    refuse('nobody', 'hook-rejected');
    await (await technician.updater()).reboot(undefined, signal);
    expect(technician.reboots).toBe(1);
  });

  // Regression: consent of before_reboot was still shown as pending for a cancelled update.
  test.each(['cancel', 'rollback'])('no consent is pending after a %s', async (how) => {
    const run = async () => ({ exitCode: 75, stdout: '', stderr: words });
    const program = { command: ['ask'], user: undefined, timeoutMs: 1_000 } as const;
    technician.hooks = new Hooks({ before_reboot: program }, { run, clock: { monotonicMs: () => 0 } });
    await technician.updateOnce(byHand);
    const updater = await technician.updater();
    expect(updater.hookPause).toMatchObject({ leftMs: 60_000, reason: `before_reboot defers: ${words}` });
    const { signal } = new AbortController();
    if (how === 'cancel') await updater.cancel(() => {}, signal);
    else await updater.rollback(byHand, () => {}, signal);
    expect([(await state()).phase.kind, updater.hookPause]).toEqual(['idle', undefined]);
  });

  // Regression: the service received it at the next scheduled check.
  test('a rejected manual reboot is reported to an available service immediately', async () => {
    technician.outcomeProperty = 'update_outcome';
    for (const isSilent of [false, true]) {
      refuse('before_reboot', 'hook-deferred');
      await technician.updateOnce(byHand);
      refuse('before_reboot', 'hook-rejected');
      const updater = await technician.updater();
      if (isSilent) technician.gateway.service.failures = Number.POSITIVE_INFINITY;
      const reboot = updater.reboot(undefined, new AbortController().signal);
      await expect(reboot).rejects.toMatchObject({ code: 'hook-rejected', message: words });
      expect((await state()).reports).toHaveLength(isSilent ? 1 : 0);
    }
  });

  test('a forced reboot calls no hook for an update that the daemon staged', async () => {
    refuse('before_reboot', 'hook-deferred');
    await technician.updateOnce(bySchedule);
    expect(await technician.updateOnce({ ...byHand, force: true })).toMatchObject({ kind: 'rebooting' });
  });

  test('an interrupted trial is armed again only with consent', async () => {
    await technician.updateOnce(bySchedule);
    technician.gateway.reboot();
    technician.gateway.reboot();
    refuse('before_reboot', 'hook-deferred');
    expect(await technician.updateOnce(bySchedule)).toMatchObject(notNow);
    expect(technician.gateway.bootloader.bootable).toEqual(['B']);
  });
});

describe('after an attempt has ended', () => {
  let told: PendingHook[];
  let trouble: string | undefined;

  /** Requests notifications; `cut`: the agent ends in the middle of one. */
  function listen({ cut = false } = {}): void {
    const tell: NotifyHook = async (owed) => {
      told.push(owed);
      if (cut) throw stopped;
      return trouble;
    };
    technician.hooks = { ...silent, wants: () => true, tell };
  }
  const stopped = new Error('the agent was stopped');

  beforeEach(() => {
    told = [];
    trouble = undefined;
  });

  test('a commit is notified once, whether the hook succeeds or not', async () => {
    listen();
    trouble = 'it failed';
    expect(await technician.update()).toEqual({ kind: 'installed', version: 'version 2' });
    await technician.updateOnce(bySchedule);
    const attempt = expect.any(String) as string;
    const version = { id: '2', name: 'version 2' };
    expect(told).toEqual([{ hook: 'after_commit', attempt, by: 'service', version, slot: 'A' }]);
    expect((await state()).installed?.version).toEqual(version);
  });

  test('a rollback is notified with its reason', async () => {
    listen();
    technician.gateway.service.target = 'bad';
    await technician.update();
    expect(told).toMatchObject([
      { hook: 'after_rollback', version: { id: 'bad' }, slot: 'A', code: 'unhealthy', reason: 'not well' },
    ]);
  });

  // Regression, found by the sweep: the next reboot was the first to notice the end, and skipped the hook.
  test('a rollback that is found at a manual reboot is notified', async () => {
    listen();
    await technician.updateOnce(byHand);
    const { signal } = new AbortController();
    for (let boots = 0; boots < 6 && (await state()).phase.kind !== 'idle'; boots += 1) {
      technician.gateway.reboot(); // into the trial, without output
      technician.gateway.reboot();
      await (await technician.updater()).reboot(undefined, signal);
    }
    expect((await state()).lastOutcome).toMatchObject({ version: 'version 2', outcome: 'rolled-back' });
    await technician.updateOnce(bySchedule);
    expect(told).toMatchObject([{ hook: 'after_rollback', version: { id: '2' } }]);
  });

  test('an interrupted notification is repeated', async () => {
    listen({ cut: true });
    await technician.updateOnce(byHand);
    technician.gateway.start();
    await expect(technician.settle()).rejects.toBe(stopped);
    technician.gateway.start();
    listen();
    expect(await technician.update()).toMatchObject({ kind: 'up-to-date' });
    expect(told.map(({ hook }) => hook)).toEqual(['after_commit', 'after_commit']);
    await technician.update();
    expect(told).toHaveLength(2);
  });

  test('no notification is stored without a hook', async () => {
    await technician.update();
    expect((await state()).owedHook).toBeUndefined();
    listen();
    await technician.update();
    expect(told).toEqual([]);
  });
});
