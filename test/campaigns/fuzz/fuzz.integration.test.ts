import { expect, test } from 'vitest';

import { describeResult, fuzz } from './fuzz.ts';
import { allTargets } from './targets.ts';

const SECONDS_EACH = 0.15;
const SEED = 1;

/** The same, for as long as wanted: `npm run fuzz -- --seconds N --target T --seed S`. */
test(
  'nothing that comes from outside makes the agent crash, hang, grow, or change what boots',
  { timeout: 300_000 },
  async () => {
    // Each attack on the whole daemon has its own test (guarantees/hostile); several together take minutes, not
    // seconds.
    const quick = (await allTargets()).filter(({ name }) => name !== 'daemon');
    const results = await fuzz(quick, { seconds: SECONDS_EACH, seed: SEED, atATime: 2 });
    console.log(`seed ${SEED}\n${results.map(describeResult).join('\n')}`);
    expect(results.filter(({ failure }) => failure !== undefined)).toEqual([]);
    expect(results.filter(({ cases }) => cases === 0)).toEqual([]);
  },
);
