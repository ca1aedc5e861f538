import { defineConfig } from 'vitest/config';

import { LongestFirst } from './test/longest-first.ts';

const shared = { testTimeout: 20_000, hookTimeout: 60_000 };
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
          name: 'integration',
          include: ['test/**/*.integration.test.ts'],
          globalSetup: 'test/stand-ins/machine/built-agent.ts',
          testTimeout: 240_000,
          hookTimeout: 300_000,
          // Most of their time is waiting, for processes, boots and deadlines.
          maxWorkers: 4,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
