import { describe, expect, test } from 'vitest';

import { rebootManually } from '../../../../src/update/manual.ts';
import { blockedIn } from '../version-entries.ts';
import { Bench, firmware, installed, trial } from './settle-bench.ts';

const waiting = { ...trial, attempt: { ...trial.attempt, rebootByHand: true }, rebootByHand: true, rebootAsked: false };

describe('a trial that waits for a reboot by hand', () => {
  // Regression: two external reboots blocked a release that had never been tried.
  test('is not used up by another reboot, where only its own boots it', async () => {
    const bench = new Bench({ phase: { ...waiting, trialsLeft: 0 } }, 'one-shot');
    for (let reboot = 0; reboot < 5; reboot += 1) {
      expect(await bench.settle()).toMatchObject({ kind: 'reboot-required', slot: 'B' });
      const { state } = bench.journal;
      expect(state.phase).toMatchObject({ kind: 'trial', trialsLeft: 0, rebootAsked: false });
      bench.boots += 1;
    }
    expect(bench.reboots).toBe(0);
    expect(blockedIn(bench.journal.state)).toEqual([]);
  });

  test('is used up by any reboot, where the next boot is the trial', async () => {
    const bench = new Bench({ phase: { ...waiting, trialsLeft: 0 } }, 'counters');
    expect(await bench.settle()).toMatchObject({ kind: 'rolled-back' });
  });

  test('is booted again by the agent once the operator requests a reboot from it', async () => {
    const bench = new Bench({ phase: { ...waiting, rebootAsked: true } });
    expect(await bench.settle()).toMatchObject({ kind: 'rebooting', slot: 'B' });
    expect(bench.reboots).toBe(1);
  });
});

describe('a reboot by hand', () => {
  const signal = new AbortController().signal;

  /** Returns the argument of the reboot. */
  async function argumentOf(bench: Bench): Promise<string | undefined> {
    let asked: string | undefined;
    const reboot = async (argument: string | undefined): Promise<void> => {
      asked = argument;
    };
    await rebootManually(undefined, { ...bench.ports, machine: { ...bench.ports.machine, reboot } });
    return asked;
  }

  // Regression: the old slot was booted by the argument, found healthy, and committed: the gateway went back a release.
  test('during a trial of boards only boots the running slot, not the other one', async () => {
    const payloads = [{ target: 'meter', kind: 'mcu', sizeBytes: 1, digest: 'sha256:m' }] as const;
    const boards = { ...trial, firmware: { ...firmware, payloads: [...payloads] }, bootId: '' };
    const bench = new Bench({ phase: boards, installed: installed('1', 'B') }, 'one-shot');
    await bench.startTrial();
    await bench.bootloader.commit('B', signal);
    const argument = await argumentOf(bench);
    bench.boots += 1;
    expect(bench.bootloader.boot(argument)).toBe('B');
  });

  test('while a slot waits for its trial boots that', async () => {
    const bench = new Bench({ phase: { ...waiting, bootId: 'boot 1' } }, 'one-shot');
    expect(await argumentOf(bench)).toBe('0 tryboot');
  });
});
