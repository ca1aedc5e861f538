import fc from 'fast-check';
import { expect, test } from 'vitest';

import { AgentError } from '../../../../src/system/errors.ts';
import type { Phase } from '../../../../src/update/journal/state.ts';
import type { FakeStyle } from '../../../fakes/machine/memory/fake-bootloader.ts';
import { attempt, Bench, firmware, installed, stateTrouble, trial } from './settle-bench.ts';

const phases: Readonly<Record<string, Phase>> = {
  staged: { kind: 'staged', attempt, slot: 'B', firmware, trialsLeft: 2 },
  'fallen back': { ...trial, trialsLeft: 2 },
  'fallen back for the last time': { ...trial, trialsLeft: 0 },
  'going back': {
    kind: 'rolling-back',
    attempt,
    slot: 'B',
    firmware,
    code: 'x',
    reason: '',
    fault: 'firmware',
    boards: {},
    restores: 0,
  },
};

/** A round of the daemon, a start of the program in the same boot, and a boot. */
const happening = fc.constantFrom('round', 'round', 'restart', 'boot');

async function round(bench: Bench): Promise<void> {
  try {
    await bench.settle();
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
  }
}

// Regression: 2,880 writes of the boot environment in a day, which wear its flash memory out.
test.each(Object.entries(phases))(
  'where nothing can be kept (%s), the boot environment is written at most twice in a boot, however many rounds and starts there are',
  async (_name, phase) => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom<FakeStyle>('counters', 'one-shot'),
        fc.array(happening, { maxLength: 40 }),
        async (style, happenings) => {
          const bench = new Bench({ phase, installed: installed('1', 'A') }, style);
          bench.journal.broken = stateTrouble('disk-full');
          let boots = 1;
          for (const what of happenings) {
            if (what === 'restart') bench.restart();
            if (what !== 'boot') await round(bench);
            else {
              bench.bootloader.boot();
              bench.boots += 1;
              bench.restart();
              boots += 1;
            }
          }
          expect(bench.bootloader.changes).toBeLessThanOrEqual(2 * boots);
        },
      ),
    );
  },
);
