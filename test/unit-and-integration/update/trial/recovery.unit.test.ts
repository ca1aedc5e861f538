import { describe, expect, test } from 'vitest';

import { BootloaderError } from '../../../../src/slots/bootloaders/errors.ts';
import type { FirmwareRecord, Phase } from '../../../../src/update/journal/state.ts';
import { MAX_JUDGEMENTS } from '../../../../src/update/trial/plan-recovery.ts';
import type { FakeStyle } from '../../../fakes/machine/memory/fake-bootloader.ts';
import { evidence } from '../../slots/bootloaders/bootloader-contract.ts';
import { attempt, Bench, firmware, installed, rootfs, stateTrouble, trial } from './settle-bench.ts';

const signal = new AbortController().signal;

describe('a slot that was staged before a restart', () => {
  const phase: Phase = { kind: 'staged', attempt, slot: 'B', firmware, trialsLeft: 2 };

  test('is booted on trial if it still has its verified content', async () => {
    const bench = new Bench({ phase });
    expect(await bench.settle()).toMatchObject({ kind: 'rebooting', slot: 'B' });
    expect(bench.bootloader.armed).toEqual([{ slot: 'B', digest: firmware.digest }]);
  });

  test('is disarmed before its attempt ends, where arming it failed and was made all the same', async () => {
    const bench = new Bench({ phase });
    const { bootloader, journal } = bench;
    const arm = bootloader.tryOnce.bind(bootloader);
    bootloader.tryOnce = async (...args): Promise<void> => {
      await arm(...args);
      throw new BootloaderError('boot-write-not-confirmed', 'it was made all the same');
    };
    const disarm = bootloader.markUnbootable.bind(bootloader);
    bootloader.markUnbootable = async (...args): Promise<void> => {
      expect(journal.state.phase.kind).toBe('staged');
      await disarm(...args);
    };
    await expect(bench.settle()).rejects.toMatchObject({ code: 'boot-write-not-confirmed' });
    expect(bootloader.bootable).toEqual(['A']);
    expect(journal.state.phase.kind).toBe('idle');
  });

  test.each<readonly [string, Phase]>([
    ['staged', phase],
    ['trial', { ...trial, bootId: 'before' }],
  ])('is never booted if it holds anything else (%s)', async (_, found) => {
    const bench = new Bench({ phase: found });
    bench.staged = 'sha256:rotten';
    expect(await bench.settle()).toEqual({ kind: 'settled' });
    expect(bench.bootloader.armed).toEqual([]);
    expect(bench.reboots).toBe(0);
    expect(bench.journal.state).toMatchObject({ phase: { kind: 'idle' }, lastOutcome: { code: 'not-verified' } });
  });
});

// Regression, found by the sweep: the attempt failed, and the board kept the program of the discarded slot.
test('an interrupted trial restores the boards if it cannot be armed again', async () => {
  const meter = { target: 'meter', kind: 'mcu', sizeBytes: 1, digest: 'sha256:m' } as const;
  const withMeter = { ...firmware, payloads: [rootfs, meter] };
  const phase: Phase = { ...trial, firmware: withMeter, boards: { meter: 'flashed' }, bootId: 'before' };
  const bench = new Bench({ phase, installed: installed('1', 'A') });
  let restored = 0;
  bench.board.keeps = async () => ({ payload: true, before: true });
  bench.board.digestOf = async () => meter.digest;
  bench.board.restore = async () => {
    restored += 1;
  };
  bench.bootloader.tryOnce = async () => {
    throw new BootloaderError('boot-environment-unwritable', 'made to fail');
  };
  await expect(bench.settle()).rejects.toMatchObject({ code: 'boot-environment-unwritable' });
  expect(restored).toBe(1);
  expect(bench.journal.state).toMatchObject({
    phase: { kind: 'idle' },
    lastOutcome: { outcome: 'rolled-back', code: 'boot-environment-unwritable' },
  });
});

describe('a trial that was found healthy', () => {
  // Regression in the sweep: killed between the two, checked again, found unhealthy. With tryboot the committed slot
  // could not be discarded, and the gateway tried for ever.
  test.each<FakeStyle>(['counters', 'one-shot'])('is not judged again after a kill (%s)', async (style) => {
    const bench = new Bench({ phase: { ...trial, approved: true } }, style);
    await bench.startTrial();
    await bench.bootloader.commit('B', signal);
    bench.complaint = 'not well any more';
    expect(await bench.settle()).toMatchObject({ kind: 'installed' });
    expect(bench.journal.state.installed).toMatchObject({ slot: 'B' });
  });

  // Regression in the sweep: killed between the two, and a list arrived before the next start. The revoked version was
  // committed.
  test.each<FakeStyle>(['counters', 'one-shot'])('goes back where a list revoked it meanwhile (%s)', async (style) => {
    const bench = new Bench({ phase: { ...trial, approved: true } }, style);
    await bench.startTrial();
    bench.revocation = 'was revoked by list 2';
    expect(await bench.settle()).toMatchObject({ kind: 'rebooting', goesBack: true });
    expect(bench.bootloader.boot()).toBe('A');
    expect(await bench.settle()).toMatchObject({ kind: 'rolled-back', reason: 'version two was revoked by list 2' });
    expect(bench.journal.state.lastOutcome).toMatchObject({ code: 'no-longer-trusted' });
    expect(bench.bootloader.bootable).toEqual(['A']);
  });

  // Found by strangers: a revoked one ran on for as long as the disk refused writes, and every round failed; and one was
  // committed whose list had come, and could not be kept.
  test.each<readonly [FakeStyle, string | undefined]>([
    ['counters', 'was revoked by list 2'],
    ['one-shot', 'was revoked by list 2'],
    ['counters', undefined],
    ['one-shot', undefined],
  ])('goes back where nothing can be written (%s, %s)', async (style, revocation) => {
    const bench = new Bench({ phase: { ...trial, approved: true }, installed: installed('1', 'A') }, style);
    await bench.startTrial();
    bench.revocation = revocation;
    bench.journal.broken = stateTrouble('state-unavailable');
    expect(await bench.settle()).toMatchObject({ kind: 'rebooting', goesBack: true });
    expect(bench.bootloader.boot()).toBe('A');
  });

  test.each<FakeStyle>(['counters', 'one-shot'])(
    'stays where the bootloader had committed it before the list came (%s)',
    async (style) => {
      const bench = new Bench({ phase: { ...trial, approved: true } }, style);
      await bench.startTrial();
      await bench.bootloader.commit('B', signal);
      bench.revocation = 'was revoked by list 2';
      expect(await bench.settle()).toMatchObject({ kind: 'installed' });
      expect(bench.journal.state.installed).toMatchObject({ slot: 'B' });
    },
  );

  test('is judged again where the bootloader fell back before it was committed, and it is tried again', async () => {
    const bench = new Bench({ phase: { ...trial, approved: true, trialsLeft: 0 } });
    expect(await bench.settle()).toMatchObject({ kind: 'rolled-back' });
  });
});

// Regression, found by the fuzzer of journals: its recovery was rejected for ever.
test('a slot that is to be left stays where nothing else boots, and its attempt ends', async () => {
  const { judgements: _, approved: __, ...begun } = trial;
  const why = { code: 'unhealthy', reason: 'not well', fault: 'firmware', restores: 0 } as const;
  const bench = new Bench({ phase: { ...begun, ...why, kind: 'rolling-back', slot: 'A' } });
  expect(await bench.settle()).toMatchObject({
    kind: 'rolled-back',
    reason: expect.stringMatching('^not well; ') as string,
  });
  expect(bench.reboots).toBe(0);
  expect(bench.bootloader.boot()).toBe('A');
  expect(bench.journal.state).toMatchObject({ phase: { kind: 'idle' }, lastOutcome: { code: 'no-fallback-slot' } });
  expect(await bench.settle()).toEqual({ kind: 'settled' });
});

describe('if another slot runs than the last installed one', () => {
  test('the previously installed version is installed again, and the service is notified', async () => {
    const bench = new Bench({ installed: installed('2', 'B'), earlier: [installed('1', 'A')], pendingSwitch: '2' });
    await bench.settle();
    const { state } = bench.journal;
    expect(state.installed).toMatchObject({ slot: 'A', version: { id: '1' } });
    expect(state.earlier).toMatchObject([{ slot: 'B', version: { id: '2' } }]);
    expect(state.pendingSwitch).toBe('1');
  });

  // Regression in the sweep: slot A was committed, and slot B called installed.
  test('a trial of boards only restores their previous programs', async () => {
    const payload = { target: 'meter', kind: 'mcu', sizeBytes: 0, digest: 'sha256:m' } as const;
    const phase = { ...trial, firmware: { ...firmware, payloads: [payload] } };
    const bench = new Bench({ phase, installed: installed('1', 'B') });
    expect(await bench.settle()).toMatchObject({
      kind: 'rolled-back',
      reason: expect.stringMatching('slot A runs') as string,
    });
    expect(bench.board.flashed).toEqual([]);
    expect(bench.journal.state).toMatchObject({ phase: { kind: 'idle' }, earlier: [{ slot: 'B' }] });
    expect(bench.journal.state.installed).toBeUndefined();
  });

  // Regression in the sweep: slot A was committed, and slot B stayed installed until the next start.
  test('an interrupted rollback of boards only is reported, too', async () => {
    const payload = { target: 'meter', kind: 'mcu', sizeBytes: 0, digest: 'sha256:m' } as const;
    const end = {
      kind: 'rolling-back',
      code: 'unhealthy',
      reason: 'not well',
      fault: 'firmware',
      restores: 0,
    } as const;
    const phase: Phase = { ...trial, ...end, firmware: { ...firmware, payloads: [payload] } };
    const bench = new Bench({ phase, installed: installed('1', 'B') });
    expect(await bench.settle()).toMatchObject({ kind: 'rolled-back', reason: 'not well' });
    expect(bench.bootloader.boot()).toBe('A');
    expect(bench.journal.state).toMatchObject({ phase: { kind: 'idle' }, earlier: [{ slot: 'B' }] });
    expect(bench.journal.state.installed).toBeUndefined();
  });

  // Regression in the sweep: version 2 was considered running, and the service satisfied.
  test.each<Phase>([{ kind: 'idle' }, { kind: 'staging', attempt, slot: 'A' }])(
    'nothing is taken for installed if nothing is known of it (%o)',
    async (phase) => {
      const bench = new Bench({ phase, installed: installed('2', 'B'), pendingSwitch: '2' });
      await bench.settle();
      const { state } = bench.journal;
      expect(state.installed).toBeUndefined();
      expect(state.earlier).toMatchObject([{ slot: 'B' }]);
      expect(state.pendingSwitch).toBeUndefined();
    },
  );
});

// Armed, and killed before the journal could say so: a power cut would have begun the trial in the middle of the hold.
test('a scheduled update that was armed before a kill is disarmed, and the running version is committed', async () => {
  const { attempt: begun, slot, firmware: staged, trialsLeft } = trial;
  const bench = new Bench({ phase: { kind: 'staged', attempt: begun, slot, firmware: staged, trialsLeft } });
  await bench.bootloader.tryOnce('B', evidence, signal);
  bench.hold = { code: 'on-hold', reason: 'harvest' };
  expect(await bench.settle()).toMatchObject({ kind: 'deferred', code: 'on-hold' });
  expect(bench.bootloader.boot()).toBe('A');
});

describe('a trial of boards alone', () => {
  const payload = { target: 'meter', kind: 'mcu', sizeBytes: 0, digest: 'sha256:m' } as const;
  const onBoards: FirmwareRecord = { ...firmware, payloads: [payload] };
  const boards: Phase = { ...trial, firmware: onBoards, boards: { meter: 'flashed' } };

  // Regression in the sweep: interruptions had used up the boot counters of slot B. Its commit was rejected for ever.
  test('is committed under the slot that runs, whichever it is', async () => {
    const bench = new Bench({ phase: boards });
    expect(await bench.settle()).toMatchObject({ kind: 'installed' });
    expect(bench.journal.state.installed).toMatchObject({ slot: 'A' });
  });

  // No bootloader decides about them: what the journal does not call committed is not.
  test('rolls back if a list revoked it after it was found healthy', async () => {
    const bench = new Bench({ phase: { ...boards, boards: {}, approved: true } });
    bench.revocation = 'was revoked by list 2';
    expect(await bench.settle()).toMatchObject({ kind: 'rolled-back' });
    expect(bench.journal.state.lastOutcome).toMatchObject({ code: 'no-longer-trusted' });
  });

  // Regression: the version that was known to run was committed, as a trial that was armed elsewhere; then the boards
  // were flashed under it.
  test('ends if an operator boots the other slot on trial in between, and that is committed', async () => {
    const slots = { A: { records: {}, seen: { at: '' } }, B: { records: {}, seen: { at: '' } } };
    const known = { installed: installed('2', 'B'), earlier: [installed('1', 'A')], slots };
    const bench = new Bench({ phase: { ...boards, boards: {} }, ...known }, 'one-shot');
    await bench.startTrial();
    await bench.bootloader.commit('B', signal);
    expect(bench.bootloader.boot('0 tryboot')).toBe('A');
    expect(await bench.settle()).toEqual({ kind: 'settled' });
    const why = 'slot A runs, no longer slot B, for which the boards were meant';
    expect(await bench.settle()).toMatchObject({ kind: 'rolled-back', reason: why });
    expect(bench.journal.state.installed).toMatchObject({ slot: 'A' });
  });

  test('renews the boot counters of the running slot, so that interruptions do not use them up', async () => {
    const bench = new Bench({ phase: boards });
    await bench.startTrial();
    await bench.bootloader.commit('B', signal);
    bench.cut = true;
    for (let starts = 0; starts < MAX_JUDGEMENTS - trial.judgements; starts += 1) {
      await expect(bench.settle()).rejects.toThrow('cut');
      expect(bench.bootloader.boot()).toBe('B');
      expect(bench.bootloader.boot()).toBe('B');
    }
  });
});

describe('a rollback whose board has left the configuration', () => {
  const payload = { target: 'meter', kind: 'mcu', sizeBytes: 0, digest: 'sha256:m' } as const;
  const end = { kind: 'rolling-back', code: 'unhealthy', reason: 'not well', fault: 'firmware', restores: 0 } as const;
  const both: FirmwareRecord = { ...firmware, payloads: [rootfs, payload] };

  test('ends immediately if the board was never touched', async () => {
    const bench = new Bench({ phase: { ...trial, ...end, firmware: both, boards: {} } });
    bench.hasBoard = false;
    expect(await bench.settle()).toMatchObject({ kind: 'rolled-back', reason: 'not well' });
  });

  test('ends after the number of attempts for a board that does not respond, and reports it', async () => {
    const bench = new Bench({ phase: { ...trial, ...end, firmware: both, boards: { meter: 'flashed' } } });
    bench.hasBoard = false;
    const refused = { code: 'target-unknown' };
    for (let rounds = 1; rounds < 10; rounds += 1) await expect(bench.settle()).rejects.toMatchObject(refused);
    expect(await bench.settle()).toMatchObject({ kind: 'rolled-back' });
    expect(bench.journal.state.lastOutcome).toMatchObject({ code: 'board-not-restored' });
  });
});

describe('the running slot while the journal calls another slot installed', () => {
  test('is what is installed, where a trial is to be left and nothing else boots', async () => {
    const why = { code: 'unhealthy', reason: 'not well', fault: 'firmware', restores: 0 } as const;
    const phase = { ...trial, ...why, kind: 'rolling-back', slot: 'A' } as const;
    const bench = new Bench({ phase, installed: installed('1', 'B') });
    expect(await bench.settle()).toMatchObject({ kind: 'rolled-back' });
    expect(bench.journal.state.installed).toBeUndefined();
  });

  test('is what is installed, where a staging from a file was interrupted', async () => {
    const phase: Phase = { kind: 'staging', attempt: { ...attempt, by: 'file' }, slot: 'B' };
    const bench = new Bench({ phase, installed: installed('2', 'B'), earlier: [installed('1', 'A')] });
    await bench.settle();
    expect(bench.journal.state.installed).toMatchObject({ slot: 'A', version: { id: '1' } });
  });
});
