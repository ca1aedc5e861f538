import { expect, test } from 'vitest';

import { howMuch } from '../../full.ts';
import { describeFailure, describeTally, runCampaign, tooSeldom } from './campaign.ts';

const KILLS = howMuch(4, 2);
const SEED = 1;

/**
 * The real program on loop devices. `npm run kills -- --kills N --seed S` runs any number; episode.ts and invariants.ts
 * define each kill and the invariants after it.
 */
test(
  'killed, rebooted or powered off at each step and at random, a gateway boots a complete image and completes the update',
  { timeout: 600_000 },
  async ({ signal }) => {
    const tally = await runCampaign({ kills: KILLS, seed: SEED, gateways: 3, signal });
    console.log(`seed ${SEED}: ${describeTally(tally)}`);
    expect(tally.failures.map(describeFailure)).toEqual([]);
    expect(tally.kills).toBeGreaterThanOrEqual(KILLS);
    expect(tooSeldom(tally)).toEqual([]);
  },
);
