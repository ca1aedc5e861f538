import { defineConfig } from 'vitest/config';

import { howMuch } from './test/full.ts';
import { LongestFirst } from './test/longest-first.ts';

/** A test that is played in full lasts as long as that takes, on a machine that does other things besides. */
const patience = howMuch(30, 1);
/** Node itself leaves out the types, as where the program runs from source: Vite need not make each file anew. No module is mocked. */
const experimental = { viteModuleRunner: false, nodeLoader: false };
const shared = { experimental, testTimeout: 20_000 * patience, hookTimeout: 60_000 };
/** Tests of pure parts share a process: nothing of theirs is global. */
const quick = { ...shared, isolate: false };

export default defineConfig({
  test: {
    maxWorkers: '100%',
    sequence: { sequencer: LongestFirst },
    projects: [
      { test: { ...quick, name: 'unit', include: ['test/**/*.unit.test.ts'] } },
      { test: { ...quick, name: 'contract', include: ['test/**/*.contract.test.ts'] } },
      {
        test: {
          ...shared,
          // What one file has loaded, compiled and started is there for the next one; nothing of the agent's is global.
          isolate: false,
          name: 'integration',
          include: ['test/**/*.integration.test.ts'],
          // A small heap: each program that is started costs a copy of its page tables.
          execArgv: ['--max-semi-space-size=2', `--max-old-space-size=${howMuch(4096, 512)}`],
          globalSetup: 'test/fakes/machine/built-agent.ts',
          // What is asked is often a program, which costs more than it waits for.
          expect: { poll: { interval: 250 } },
          testTimeout: 240_000 * patience,
          hookTimeout: 300_000,
          // Most of their time is waiting, for processes, boots and deadlines.
          maxWorkers: 4,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
