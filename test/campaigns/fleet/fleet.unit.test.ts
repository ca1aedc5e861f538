import { expect, test } from 'vitest';

import { seededRandom } from '../../fakes/machine/power.ts';
import { howMuch } from '../../full.ts';
import { loseBroker } from './broker.ts';
import { defaultsOfConfig } from './defaults.ts';
import { playScenarios } from './play.ts';

const large = 20_000;
const played = new Map(
  [
    ...playScenarios(howMuch(large, large, 4_000), 1, ['well', 'down', 'power', 'clock']),
    // its busiest second is compared with a mean, which is steady in a large fleet alone
    ...playScenarios(large, 1, ['limited']),
  ].map((each) => [each.name, each]),
);

test.each(['well', 'down', 'power', 'clock'])('a fleet keeps to its goal: %s', (name) => {
  const { timesMean = Number.NaN, mostTimesMean, unpromised } = played.get(name) ?? {};
  expect(timesMean).toBeLessThanOrEqual(mostTimesMean ?? 0);
  expect(unpromised).toBe(0);
});

test('a fleet that must return at one time does not return within one second', () => {
  expect(played.get('limited')).toMatchObject({ updated: large, unpromised: 0 });
  expect(played.get('limited')?.busiestSecondTimesMean).toBeLessThan(30);
});

test.each([5_000, 60_000, 3_600_000])(
  'a fleet without its broker for %i ms does not return within one second',
  (awayMs) => {
    const { busiestSecondAway, busiestSecondBack } = loseBroker(large, awayMs, seededRandom(1));
    expect(Math.max(busiestSecondAway, busiestSecondBack)).toBeLessThan(0.06);
  },
);

test('the simulated fleet has the defaults of the configuration', () => {
  expect(defaultsOfConfig()).toEqual({ schedule: '*/15 * * * *', splayMs: 900_000 });
});
