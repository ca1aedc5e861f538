import { describe, expect, test } from 'vitest';

import type { Bootloader, SlotName, WholeSlot } from '../../../../src/update/ports.ts';
import type { Power } from '../../../fakes/machine/power.ts';

/** A gateway as far as booting goes. It has just booted slot A, which is committed; slot B never held anything. */
export interface BootRig extends AsyncDisposable {
  readonly bootloader: Bootloader;
  /** Every step of a write asks it. */
  readonly power: Power;
  /** Number of boots of a committed slot without another commit. */
  readonly attempts: number;
  /** Power off (nondurable data may be lost), power on, and the bootloader's choice. */
  boot(rebootArgument?: string): Promise<SlotName>;
}

export const evidence = { digest: 'sha256:00', slot: 'B' } as WholeSlot;
export const evidenceOfA = { digest: 'sha256:00', slot: 'A' } as WholeSlot;
const signal = new AbortController().signal;
/** More than the counters of both slots together. */
const MANY_BOOTS = 7;

/**
 * Guarantees of the Bootloader port, by the slots that boot. Since an interruption has a random result, `rounds`
 * repeats it.
 */
export function bootloaderContract(name: string, open: () => Promise<BootRig>, rounds = 1): void {
  describe(`${name} as a bootloader`, () => {
    test('knows which slot runs, and boots a committed slot for ever', async () => {
      await using rig = await open();
      for (let boots = 0; boots < MANY_BOOTS; boots += 1) {
        expect(await rig.boot()).toBe('A');
        expect(await rig.bootloader.bootedSlot(signal)).toBe('A');
        await rig.bootloader.commit('A', signal);
      }
    });

    test('boots a committed slot even if some boots are interrupted before the agent runs', async () => {
      await using rig = await open();
      for (let boots = 0; boots < rig.attempts; boots += 1) expect(await rig.boot()).toBe('A');
      await rig.bootloader.commit('A', signal);
      expect(await rig.boot()).toBe('A');
    });

    test('boots a trial once, and falls back for as long as the agent does not respond', async () => {
      await using rig = await open();
      await armed(rig);
      expect(await bootTrial(rig)).toBe('B');
      for (let boots = 0; boots < rig.attempts; boots += 1) expect(await rig.boot()).toBe('A');
    });

    test('boots a trial once, and after the fallback was kept never again', async () => {
      await using rig = await open();
      await armed(rig);
      expect(await bootTrial(rig)).toBe('B');
      expect(await rig.boot()).toBe('A');
      await rig.bootloader.markUnbootable('B', signal);
      await rig.bootloader.commit('A', signal);
      expect(await bootsWithoutAgent(rig)).toEqual(['A']);
    });

    test('boots a committed trial for ever', async () => {
      await using rig = await open();
      await updated(rig);
      for (let boots = 0; boots < MANY_BOOTS; boots += 1) {
        expect(await rig.boot()).toBe('B');
        await rig.bootloader.commit('B', signal);
      }
    });

    test('tries again after a trial that fell back', async () => {
      await using rig = await open();
      await armed(rig);
      expect(await bootTrial(rig)).toBe('B');
      expect(await rig.boot()).toBe('A');
      await rig.bootloader.tryOnce('B', evidence, signal);
      expect(await bootTrial(rig)).toBe('B');
      expect(await rig.boot()).toBe('A');
    });

    test('arms a slot only with evidence of that slot', async () => {
      await using rig = await open();
      await updated(rig);
      await expect(rig.bootloader.tryOnce('A', evidence, signal)).rejects.toThrow('the evidence is of slot B');
      expect(await rig.boot()).toBe('B');
    });

    test('goes back and forth, update after update', async () => {
      await using rig = await open();
      await updated(rig);
      await rig.bootloader.markUnbootable('A', signal);
      await rig.bootloader.tryOnce('A', evidenceOfA, signal);
      expect(await bootTrial(rig)).toBe('A');
      await rig.bootloader.commit('A', signal);
      expect((await rig.bootloader.inspect(signal)).primary).toBe('A');
      expect(await rig.boot()).toBe('A');
    });

    test('leaves a trial that runs when it is marked unbootable', async () => {
      await using rig = await open();
      await armed(rig);
      expect(await bootTrial(rig)).toBe('B');
      await rig.bootloader.markUnbootable('B', signal);
      expect(await isOnTrial(rig)).toBe(true);
      expect(await bootsWithoutAgent(rig)).toEqual(['A']);
      expect(await isOnTrial(rig)).toBe(false);
    });

    test('goes back to the previous slot on trial, without a change to it', async () => {
      await using rig = await open();
      await updated(rig);
      await rig.bootloader.tryOnce('A', evidenceOfA, signal);
      expect(await bootTrial(rig)).toBe('A');
      await rig.bootloader.commit('A', signal);
      expect(await rig.boot()).toBe('A');
    });

    test('never boots an unbootable slot, whatever happens', async () => {
      await using rig = await open();
      await updated(rig);
      await rig.bootloader.markUnbootable('A', signal);
      expect(await bootsWithoutAgent(rig)).toEqual(['B']);
    });

    // Regression: a rollback that was cancelled before its reboot took the fallback away, with handlers.
    test('makes the other slot the fallback again, where a trial of it was armed and is not wanted anymore', async () => {
      await using rig = await open();
      await updated(rig);
      await rig.bootloader.tryOnce('A', evidenceOfA, signal);
      await rig.bootloader.commit('B', signal, true);
      const { primary, slots } = await rig.bootloader.inspect(signal);
      expect([primary, slots.A.bootable, slots.B.bootable]).toEqual(['B', true, true]);
      expect(await isOnTrial(rig)).toBe(false);
      expect(await rig.boot()).toBe('B');
    });

    test('does not make the other slot bootable by committing', async () => {
      await using rig = await open();
      await rig.bootloader.markUnbootable('B', signal);
      await rig.bootloader.commit('A', signal);
      expect((await rig.bootloader.inspect(signal)).slots.B.bootable).toBe(false);
      expect(await bootsWithoutAgent(rig)).toEqual(['A']);
    });

    test('refuses to mark the only slot unbootable, and changes nothing', async () => {
      await using rig = await open();
      await expect(rig.bootloader.markUnbootable('A', signal)).rejects.toMatchObject({ code: 'no-fallback-slot' });
      expect(await bootsWithoutAgent(rig)).toEqual(['A']);
    });

    test('rejects discarding the good slot while the other is on trial', async () => {
      await using rig = await open();
      await armed(rig);
      expect(await bootTrial(rig)).toBe('B');
      await expect(rig.bootloader.markUnbootable('A', signal)).rejects.toMatchObject({ code: 'no-fallback-slot' });
      await expect(rig.bootloader.tryOnce('A', evidenceOfA, signal)).rejects.toMatchObject({
        code: 'no-fallback-slot',
      });
      expect(await rig.boot()).toBe('A');
    });

    test('refuses a trial without a slot to fall back to', async () => {
      await using rig = await open();
      await updated(rig);
      await rig.bootloader.markUnbootable('A', signal);
      await expect(rig.bootloader.tryOnce('B', evidence, signal)).rejects.toMatchObject({ code: 'no-fallback-slot' });
    });

    test('refuses to commit a slot that is unbootable and does not run', async () => {
      await using rig = await open();
      await rig.bootloader.markUnbootable('B', signal);
      await expect(rig.bootloader.commit('B', signal)).rejects.toMatchObject({ code: 'slot-unbootable' });
      expect(await bootsWithoutAgent(rig)).toEqual(['A']);
    });

    test('is the same after each change is made twice', async () => {
      await using rig = await open();
      await twice(() => rig.bootloader.markUnbootable('B', signal));
      expect(await rig.boot()).toBe('A');
      await twice(() => rig.bootloader.commit('A', signal));
      await twice(() => rig.bootloader.tryOnce('B', evidence, signal));
      expect(await bootTrial(rig)).toBe('B');
      expect(await rig.boot()).toBe('A');
      await rig.bootloader.tryOnce('B', evidence, signal);
      expect(await bootTrial(rig)).toBe('B');
      await twice(() => rig.bootloader.commit('B', signal));
      expect(await rig.boot()).toBe('B');
    });

    test('shows the next slot and the bootable ones', async () => {
      await using rig = await open();
      await rig.bootloader.markUnbootable('B', signal);
      expect(await rig.bootloader.inspect(signal)).toMatchObject({
        primary: 'A',
        slots: { A: { bootable: true }, B: { bootable: false } },
      });
      await updated(rig);
      expect(await rig.bootloader.inspect(signal)).toMatchObject({
        primary: 'B',
        slots: { A: { bootable: true }, B: { bootable: true } },
      });
    });

    test('tells a trial from every other boot', async () => {
      await using rig = await open();
      const onTrial = async (): Promise<boolean> => isOnTrial(rig);
      expect(await onTrial()).toBe(false);
      await rig.bootloader.commit('A', signal);
      expect(await onTrial()).toBe(false);
      await armed(rig);
      expect(await onTrial()).toBe(false);
      expect(await bootTrial(rig)).toBe('B');
      expect(await onTrial()).toBe(true);
      await rig.bootloader.canary(signal);
      expect(await onTrial()).toBe(true);
      expect(await rig.boot()).toBe('A');
      expect(await onTrial()).toBe(false);
      await updated(rig);
      expect(await onTrial()).toBe(false);
      for (let boots = 0; boots < rig.attempts; boots += 1) {
        expect(await rig.boot()).toBe('B');
        expect(await onTrial()).toBe(false);
      }
      await rig.bootloader.commit('B', signal);
      await rig.bootloader.tryOnce('A', evidenceOfA, signal);
      expect(await bootTrial(rig)).toBe('A');
      expect(await onTrial()).toBe(true);
      await rig.bootloader.commit('A', signal);
      expect(await onTrial()).toBe(false);
    });

    test('has a canary that changes nothing', async () => {
      await using rig = await open();
      await armed(rig);
      const before = await rig.bootloader.inspect(signal);
      await twice(() => rig.bootloader.canary(signal));
      expect(await rig.bootloader.inspect(signal)).toEqual(before);
      expect(await bootTrial(rig)).toBe('B');
      await rig.bootloader.canary(signal);
      expect(await rig.boot()).toBe('A');
    });

    test('does nothing after an abort', async () => {
      await using rig = await open();
      const given = AbortSignal.abort(new Error('given up'));
      const calls = [
        rig.bootloader.canary(given),
        rig.bootloader.tryOnce('B', evidence, given),
        rig.bootloader.commit('A', given),
        rig.bootloader.inspect(given),
        rig.bootloader.bootedSlot(given),
        rig.bootloader.onTrial(given),
      ];
      for (const call of await Promise.allSettled(calls)) {
        expect(call).toMatchObject({ status: 'rejected', reason: { message: 'given up' } });
      }
      expect(await bootsWithoutAgent(rig)).toEqual(['A']);
    });

    powerCuts(open, rounds);
  });
}

/** Asked in both ways, which agree. */
async function isOnTrial({ bootloader }: BootRig): Promise<boolean> {
  const { onTrial } = await bootloader.inspect(signal);
  const asked = await bootloader.onTrial(signal);
  expect(onTrial[await bootloader.bootedSlot(signal)]).toBe(asked);
  return asked;
}

function powerCuts(open: () => Promise<BootRig>, rounds: number): void {
  test('power cut while a slot is marked unbootable: the other boots, and it can be marked again', async () => {
    await sweep(open, rounds, {
      prepare: (rig) => updated(rig),
      change: ({ bootloader }) => bootloader.markUnbootable('A', signal),
      check: async (rig) => {
        expect(await rig.boot()).toBe('B');
        await rig.bootloader.commit('B', signal);
        await rig.bootloader.markUnbootable('A', signal);
        expect(await bootsWithoutAgent(rig)).toEqual(['B']);
      },
    });
  });

  test('power cut while a trial is armed: the old slot boots, or the new one once', async () => {
    await sweep(open, rounds, {
      prepare: ({ bootloader }) => bootloader.markUnbootable('B', signal),
      change: ({ bootloader }) => bootloader.tryOnce('B', evidence, signal),
      check: async (rig) => {
        const boots = [await rig.boot(), await rig.boot()];
        expect(['A A', 'B A']).toContain(boots.join(' '));
        await rig.bootloader.commit('A', signal);
        await rig.bootloader.tryOnce('B', evidence, signal);
        expect(await bootTrial(rig)).toBe('B');
        expect(await rig.boot()).toBe('A');
      },
    });
  });

  test('power cut while a trial is committed: one of both boots, and can be kept', async () => {
    await sweep(open, rounds, {
      prepare: async (rig) => {
        await armed(rig);
        await bootTrial(rig);
      },
      change: ({ bootloader }) => bootloader.commit('B', signal),
      check: async (rig) => {
        const slot = await rig.boot();
        await rig.bootloader.commit(slot, signal);
        expect(await isOnTrial(rig)).toBe(false);
        expect(await rig.boot()).toBe(slot);
      },
    });
  });

  test('power cut while a trial is ended: the old slot boots, or the trial is ended again', async () => {
    await sweep(open, rounds, {
      prepare: async (rig) => {
        await armed(rig);
        await bootTrial(rig);
      },
      change: ({ bootloader }) => bootloader.markUnbootable('B', signal),
      check: async (rig) => {
        expect(await rig.boot()).toBe('A');
        await rig.bootloader.markUnbootable('B', signal);
        await rig.bootloader.commit('A', signal);
        expect(await bootsWithoutAgent(rig)).toEqual(['A']);
      },
    });
  });

  test('power loss during the test write: the committed slot boots', async () => {
    await sweep(open, rounds, {
      prepare: (rig) => updated(rig),
      change: ({ bootloader }) => bootloader.canary(signal),
      check: async (rig) => expect(await rig.boot()).toBe('B'),
    });
  });
}

interface Sweep {
  readonly prepare: (rig: BootRig) => Promise<void>;
  readonly change: (rig: BootRig) => Promise<void>;
  readonly check: (rig: BootRig) => Promise<void>;
}

/** Cuts after the first step, after the second, … until the change gets through. */
async function sweep(open: () => Promise<BootRig>, rounds: number, { prepare, change, check }: Sweep): Promise<void> {
  const isCutAfter = async (steps: number): Promise<boolean> => {
    await using rig = await open();
    await prepare(rig);
    rig.power.cutAfter(steps);
    const [outcome] = await Promise.allSettled([change(rig)]);
    const cut = rig.power.isOut;
    expect(outcome.status).toBe(cut ? 'rejected' : 'fulfilled');
    await check(rig);
    return cut;
  };
  for (let round = 0; round < rounds; round += 1) {
    for (let steps = 1; await isCutAfter(steps); steps += 1);
  }
}

async function armed({ bootloader }: BootRig): Promise<void> {
  await bootloader.markUnbootable('B', signal);
  await bootloader.tryOnce('B', evidence, signal);
}

async function updated(rig: BootRig): Promise<void> {
  await armed(rig);
  expect(await bootTrial(rig)).toBe('B');
  await rig.bootloader.commit('B', signal);
}

function bootTrial(rig: BootRig): Promise<SlotName> {
  return rig.boot(rig.bootloader.trialRebootArgument);
}

/** Every slot that boots in many boots, after any reboot, while no agent renews a counter. */
async function bootsWithoutAgent(rig: BootRig): Promise<SlotName[]> {
  const seen = new Set<SlotName>();
  for (let boots = 0; boots < MANY_BOOTS; boots += 1) {
    seen.add(await rig.boot(boots % 3 === 2 ? rig.bootloader.trialRebootArgument : undefined));
  }
  return [...seen].sort();
}

async function twice(change: () => Promise<void>): Promise<void> {
  await change();
  await change();
}
