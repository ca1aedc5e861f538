import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { parseDuration } from '../../../../src/system/time/duration.ts';

describe('parseDuration', () => {
  test.each([
    ['10m', 600_000],
    ['5s', 5_000],
    ['1h30m', 5_400_000],
    ['500ms', 500],
    ['1m500ms', 60_500],
    ['1d', 86_400_000],
    ['0s', 0],
  ])('reads %s', (text, ms) => {
    expect(parseDuration(text)).toBe(ms);
  });

  test.each(['', '10', 'm', '10 m', '-5s', '1.5h', '30m1h', '1h1h', '5S', '1e3s', '10m '])('refuses "%s"', (text) => {
    expect(parseDuration(text)).toBeUndefined();
  });

  test('adds up the units, whichever of them are there', () => {
    const count = fc.option(fc.integer({ min: 0, max: 999 }), { nil: undefined });
    fc.assert(
      fc.property(fc.tuple(count, count, count, count, count), (counts) => {
        const units = [
          ['d', 86_400_000],
          ['h', 3_600_000],
          ['m', 60_000],
          ['s', 1_000],
          ['ms', 1],
        ] as const;
        const text = units
          .map(([unit], index) => (counts[index] === undefined ? '' : `${counts[index]}${unit}`))
          .join('');
        const sum = units.reduce((total, [, ms], index) => total + (counts[index] ?? 0) * ms, 0);
        expect(parseDuration(text)).toBe(text === '' ? undefined : sum);
      }),
    );
  });
});
