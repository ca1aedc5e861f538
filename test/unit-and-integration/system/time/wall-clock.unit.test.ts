import { expect, test } from 'vitest';

import { isPlausible } from '../../../../src/system/time/wall-clock.ts';

test.each([
  ['1970-01-01T00:00:00Z', false],
  ['2000-01-01T00:00:00Z', false],
  ['2026-10-31T23:59:59Z', false],
  ['2026-11-02T00:00:00Z', true],
  ['2045-06-01T00:00:00Z', true],
  ['2106-02-07T06:28:15Z', false],
])('a wall clock that shows %s is plausible: %s', (shown, plausible) => {
  expect(isPlausible(Date.parse(shown))).toBe(plausible);
});

test('the clock of the machine that runs this test is plausible', () => {
  expect(isPlausible(Date.now())).toBe(true);
});
