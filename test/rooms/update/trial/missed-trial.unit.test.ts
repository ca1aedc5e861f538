import { describe, expect, test } from 'vitest';

import { Bench, trial } from './settle-bench.ts';

const waiting = { ...trial, attempt: { ...trial.attempt, rebootByHand: true }, rebootByHand: true, rebootAsked: false };

describe('a trial that waits for a reboot by hand', () => {
  // Seen: two reboots by somebody else banned a firmware that had never been tried.
  test('is not used up by another reboot, where only its own boots it', async () => {
    const bench = new Bench({ phase: { ...waiting, trialsLeft: 0 } }, 'one-shot');
    for (let reboot = 0; reboot < 5; reboot += 1) {
      expect(await bench.settle()).toMatchObject({ kind: 'reboot-required', slot: 'B' });
      const { state } = bench.journal;
      expect(state.phase).toMatchObject({ kind: 'trial', trialsLeft: 0, rebootAsked: false });
      bench.boots += 1;
    }
    expect(bench.reboots).toBe(0);
    expect(bench.journal.state.quarantine).toEqual([]);
  });

  test('is used up by any reboot, where the next boot is the trial', async () => {
    const bench = new Bench({ phase: { ...waiting, trialsLeft: 0 } }, 'counters');
    expect(await bench.settle()).toMatchObject({ kind: 'rolled-back' });
  });

  test('is booted again by the agent once the person asked the agent to reboot', async () => {
    const bench = new Bench({ phase: { ...waiting, rebootAsked: true } });
    expect(await bench.settle()).toMatchObject({ kind: 'rebooting', slot: 'B' });
    expect(bench.reboots).toBe(1);
  });
});
