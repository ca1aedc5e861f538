import { expect, test } from 'vitest';

import { seededRandom } from '../../stand-ins/machine/power.ts';
import { loseBroker } from './broker.ts';
import { defaultsOfConfig } from './defaults.ts';
import { playScenarios } from './play.ts';

const played = new Map(
  [...playScenarios(20_000, 1, ['well', 'down', 'power', 'clock', 'limited'])].map((each) => [each.name, each]),
);

test.each(['well', 'down', 'power', 'clock'])('a fleet keeps to its goal: %s', (name) => {
  const { timesMean = Number.NaN, mostTimesMean, unpromised } = played.get(name) ?? {};
  expect(timesMean).toBeLessThanOrEqual(mostTimesMean ?? 0);
  expect(unpromised).toBe(0);
});

test('a fleet that is told to come back at one moment does not come in one second', () => {
  expect(played.get('limited')).toMatchObject({ updated: 20_000, unpromised: 0 });
  expect(played.get('limited')?.busiestSecondTimesMean).toBeLessThan(30);
});

test.each([5_000, 60_000, 3_600_000])('a fleet that lost its broker for %i ms does not come back at once', (awayMs) => {
  const { busiestSecondAway, busiestSecondBack } = loseBroker(20_000, awayMs, seededRandom(1));
  expect(Math.max(busiestSecondAway, busiestSecondBack)).toBeLessThan(0.06);
});

test('the simulated fleet has the defaults of the configuration', () => {
  expect(defaultsOfConfig()).toEqual({ schedule: '*/15 * * * *', splayMs: 900_000 });
});
