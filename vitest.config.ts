import { defineConfig } from 'vitest/config';

import { howMuch } from './test/full.ts';
import { LongestFirst } from './test/longest-first.ts';

/** A test that is played in full lasts as long as that takes, on a machine that does other things besides. */
const patience = howMuch(30, 1);
/** Node itself removes the types, as for a program run from source, so Vite need not transform each file. No module is mocked. */
const experimental = { viteModuleRunner: false, nodeLoader: false };
const shared = { experimental, testTimeout: 60_000 * patience, hookTimeout: 60_000 };
/** Most of their time is waiting, for processes, boots and deadlines. */
const waiting = { maxWorkers: 8, sequence: { groupOrder: 1 } };
/** Tests of pure parts share a process: none has global state. */
const quick = { ...shared, isolate: false, expect: { poll: { timeout: 15_000 } } };

export default defineConfig({
  test: {
    maxWorkers: '100%',
    sequence: { sequencer: LongestFirst },
    projects: [
      { test: { ...quick, name: 'unit', include: ['test/**/*.unit.test.ts'] } },
      { test: { ...quick, ...waiting, name: 'contract', include: ['test/**/*.contract.test.ts'] } },
      {
        test: {
          ...shared,
          ...waiting,
          // Modules, compiled code and programs of one file serve the next one; the agent has no global state.
          isolate: false,
          name: 'integration',
          include: ['test/**/*.integration.test.ts'],
          // A small heap: each program that is started costs a copy of its page tables.
          execArgv: ['--max-semi-space-size=2', `--max-old-space-size=${howMuch(4096, 512)}`],
          globalSetup: 'test/fakes/machine/built-agent.ts',
          // A poll often starts a program, which costs more than the wait. Its timeout asserts nothing: a busy machine is slow.
          expect: { poll: { interval: 250, timeout: 60_000 } },
          testTimeout: 240_000 * patience,
          hookTimeout: 300_000,
        },
      },
    ],
  },
});
