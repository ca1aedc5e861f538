import { describe, expect, test } from 'vitest';

import { BootloaderError } from '../../../../src/slots/bootloaders/errors.ts';
import type { Phase } from '../../../../src/update/journal/state.ts';
import type { FakeStyle } from '../../../fakes/machine/memory/fake-bootloader.ts';
import { blockedIn, entryWith } from '../version-entries.ts';
import { attempt, Bench, firmware, installed, stateTrouble, trial } from './settle-bench.ts';

const signal = new AbortController().signal;
const styles = ['counters', 'one-shot'] as const;
const lost: Phase = { kind: 'lost' };
const staged: Phase = { kind: 'staged', attempt, slot: 'B', firmware, trialsLeft: 2 };

async function lastWord({ bootloader }: Bench): Promise<string | undefined> {
  return (await bootloader.inspect(signal)).slots.B.lastWord;
}

describe.each<FakeStyle>(styles)('a trial (%s)', (style) => {
  // Regression with the real program: its image did not mount the state partition, and it was committed within a
  // second.
  test('is left unjudged by anything but the bootloader, where there is no journal', async () => {
    const bench = new Bench({}, style);
    bench.journal.missing = stateTrouble('state-unavailable');
    await bench.startTrial();
    expect(await bench.settle()).toMatchObject({ kind: 'rebooting', slot: 'A', goesBack: true });
    expect(bench.reboots).toBe(1);
    expect(await lastWord(bench)).toBe('state-unavailable');
    expect([bench.bootloader.boot(), bench.bootloader.boot(), bench.bootloader.boot()]).toEqual(['A', 'A', 'A']);
  });

  test('is abandoned if the journal has no record of it, such as one of another file system', async () => {
    const bench = new Bench({ installed: installed('1', 'A') }, style);
    await bench.startTrial();
    expect(await bench.settle()).toMatchObject({ kind: 'rebooting', slot: 'A' });
    expect(bench.checks).toBe(0);
  });

  test.each(['disk-full', 'state-unavailable'] as const)('is left where nothing can be written (%s)', async (code) => {
    const bench = new Bench({ phase: trial }, style);
    bench.journal.broken = stateTrouble(code);
    await bench.startTrial();
    expect(await bench.settle()).toMatchObject({ kind: 'rebooting', slot: 'A' });
    expect(bench.checks).toBe(0);
    expect(bench.journal.probes).toBeGreaterThan(1);
    expect(await lastWord(bench)).toBe(code);
    expect(bench.bootloader.boot()).toBe('A');
  });

  test('is left that was judged too often, also where nothing can be written', async () => {
    const bench = new Bench({ phase: { ...trial, judgements: 9 } }, style);
    bench.journal.broken = stateTrouble('disk-full');
    await bench.startTrial();
    expect(await bench.settle()).toMatchObject({ kind: 'rebooting', slot: 'A' });
  });

  test('ends by its reboot alone, where the boot environment cannot be written either', async () => {
    const bench = new Bench({ phase: staged }, style);
    bench.journal.broken = stateTrouble('state-unavailable');
    await bench.startTrial();
    bench.bootloader.broken = true;
    expect(await bench.settle()).toMatchObject({ kind: 'rebooting', slot: 'A' });
    expect(bench.bootloader.boot()).toBe('A');
  });

  // Regression in the sweep: two power losses in the first boots of a new gateway, whose blank slot B has attempts
  // left.
  test('that is only inferred from counters ends by its reboot alone: the running slot is not discarded for it', async () => {
    const bench = new Bench({}, style);
    bench.journal.missing = stateTrouble('state-unavailable');
    await bench.startTrial();
    bench.bootloader.guesses = true;
    const before = bench.bootloader.bootable;
    expect(await bench.settle()).toMatchObject({ kind: 'rebooting', slot: 'A' });
    expect(bench.reboots).toBe(1);
    expect(bench.bootloader.bootable).toEqual(before);
  });

  test('of a slot that is known to run, past the agent, is kept if it is healthy', async () => {
    const bench = new Bench({ installed: installed('1', 'A'), earlier: [installed('2', 'B')] }, style);
    await bench.startTrial();
    expect(await bench.settle()).toMatchObject({ kind: 'rolled-back', reason: /slot B runs again/ });
    expect(bench.checks).toBe(1);
    expect(bench.journal.state.installed).toMatchObject({ slot: 'B', version: { id: '2' } });
    expect(bench.journal.state.reports).toMatchObject([{ code: 'fell-back' }]);
    expect(bench.bootloader.boot()).toBe('B');
  });

  test.each<readonly [string, Phase]>([
    ['lost', lost],
    ['idle', { kind: 'idle' }],
  ])('whose phase is %s is left if it is not healthy', async (_name, phase) => {
    const bench = new Bench({ phase, earlier: [installed('2', 'B')] }, style);
    await bench.startTrial();
    bench.complaint = 'not well';
    expect(await bench.settle()).toMatchObject({ kind: 'rebooting', slot: 'A', reason: 'not well' });
    expect(bench.reboots).toBe(1);
    expect(bench.journal.state.phase).toEqual(phase);
    expect(bench.bootloader.boot()).toBe('A');
    expect(await bench.settle()).toEqual({ kind: 'settled' });
  });

  test('is kept with a lost phase if it is healthy', async () => {
    const bench = new Bench({ phase: lost }, style);
    await bench.startTrial();
    expect(await bench.settle()).toEqual({ kind: 'settled' });
    expect(bench.journal.state.phase.kind).toBe('idle');
    expect(bench.bootloader.boot()).toBe('B');
  });

  test('can be committed manually if a damaged journal has no record of it', async () => {
    const bench = new Bench({ phase: lost }, style);
    await bench.startTrial();
    expect(await bench.commit()).toMatchObject({ kind: 'installed' });
    expect(bench.bootloader.boot()).toBe('B');
  });

  // Regression in the sweep: one failed read, and the committed version had its boards still on the previous program.
  test('cannot be committed manually while the journal is unreadable', async () => {
    const bench = new Bench({ phase: lost }, style);
    bench.journal.missing = stateTrouble('state-unavailable');
    await bench.startTrial();
    await expect(bench.commit()).rejects.toMatchObject({ code: 'state-unavailable' });
    expect(bench.bootloader.boot()).toBe('A');
  });
});

describe.each<FakeStyle>(styles)('the old slot (%s)', (style) => {
  async function leftBy(phase: Phase, code: string, gaveUp = 0): Promise<Bench> {
    const bench = new Bench(
      { phase, installed: installed('1', 'A'), versions: [entryWith({ ...attempt, gaveUp })] },
      style,
    );
    await bench.startTrial();
    await bench.bootloader.markUnbootable('B', signal, code);
    expect(bench.bootloader.boot()).toBe('A');
    return bench;
  }

  test.each<readonly [string, Phase]>([
    ['staged', staged],
    ['on trial', trial],
  ])('reports why the new one left, and does not try it again (%s)', async (_name, phase) => {
    const bench = await leftBy(phase, 'unhealthy');
    expect(await bench.settle()).toMatchObject({ kind: 'rolled-back' });
    expect(bench.journal.state).toMatchObject({
      phase: { kind: 'idle' },
      lastOutcome: { outcome: 'rolled-back', code: 'unhealthy' },
    });
    expect(blockedIn(bench.journal.state)).toMatchObject([{ digest: firmware.digest }]);
    expect(bench.bootloader.bootable).toEqual(['A']);
  });

  // Regression: a gateway so slow that udev found the state partition too late gave a good release up.
  test.each(['disk-full', 'state-unavailable'])(
    'does not blame the firmware for %s until it has failed as often as it may',
    async (code) => {
      const blamed = [];
      for (const gaveUp of [0, 1, 2]) {
        const bench = await leftBy(trial, code, gaveUp);
        await bench.settle();
        expect(bench.journal.state).toMatchObject({ lastOutcome: { code } });
        blamed.push(blockedIn(bench.journal.state).length);
      }
      expect(blamed).toEqual([0, 0, 1]);
    },
  );
});

describe('a committed slot', () => {
  // Regression: with U-Boot's defaults and a blank slot B, the gateway started B for ever.
  test.each<FakeStyle>(styles)('is never given up for a lost phase, healthy or not (%s)', async (style) => {
    const bench = new Bench({ phase: lost }, style);
    await bench.startTrial();
    await bench.bootloader.commit('B', signal);
    bench.complaint = 'the service is away';
    expect(await bench.settle()).toEqual({ kind: 'settled' });
    expect(bench.checks).toBe(0);
    expect(bench.reboots).toBe(0);
    expect(bench.journal.state.phase.kind).toBe('idle');
    expect(bench.bootloader.boot()).toBe('B');
  });

  test('is kept without a state directory, and nothing is written there', async () => {
    const bench = new Bench({ phase: lost });
    bench.journal.missing = stateTrouble('state-unavailable');
    bench.journal.broken = bench.journal.missing;
    expect(await bench.settle()).toEqual({ kind: 'settled' });
    expect(bench.bootloader.bootable).toEqual(['A']);
  });
});

// Regression: 120 writes of the boot environment in 60 rounds.
test('where the journal cannot follow, the boot environment is written once, not in every round', async () => {
  const bench = new Bench({ phase: { ...trial, bootId: 'before' } });
  await bench.startTrial();
  bench.bootloader.boot();
  bench.journal.broken = stateTrouble('disk-full');
  let writes = 0;
  const { bootloader } = bench;
  for (const change of ['tryOnce', 'markUnbootable'] as const) {
    bootloader[change] = async () => {
      writes += 1;
      throw new BootloaderError('boot-environment-unwritable', 'not expected');
    };
  }
  for (let rounds = 0; rounds < 5; rounds += 1) {
    await expect(bench.settle()).rejects.toMatchObject({ code: 'disk-full' });
  }
  expect(writes).toBe(0);
});
