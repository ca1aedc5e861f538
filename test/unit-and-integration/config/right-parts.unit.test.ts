import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { validSubset } from '../../../src/config/check/valid-subset.ts';
import { describeIdleStep } from '../../../src/config/cross-check/warnings.ts';

const least = { service: { url: 'https://things.example.com' }, device: { device_type: 'x' } };

describe('what is right of a configuration', () => {
  test('is all of it where nothing is wrong', () => {
    const { tables, placeOf } = validSubset({ ...least, trust: { keys: ['/a', '/b'] } });
    expect(tables.trust?.keys).toEqual(['/a', '/b']);
    expect(placeOf(['trust', 'keys', 1])).toEqual(['trust', 'keys', 1]);
  });

  test('keeps its place in a list of which any items are wrong', () => {
    fc.assert(
      fc.property(fc.array(fc.boolean(), { maxLength: 20 }), (kinds) => {
        const keys = kinds.map((isRight, index) => (isRight ? `/${index}` : index));
        const { tables, placeOf } = validSubset({ ...least, trust: { keys } });
        for (const [index, key] of (tables.trust?.keys ?? []).entries())
          expect(placeOf(['trust', 'keys', index])).toEqual([
            'trust',
            'keys',
            typeof key === 'string' ? Number(key.slice(1)) : key,
          ]);
        expect(tables.trust?.keys).toHaveLength(kinds.filter(Boolean).length);
      }),
    );
  });

  test('goes with the table that cannot be without it, and takes nothing of its neighbour', () => {
    const right = { id: 'w', every: '1m', output: { kind: 'file', path: '/x' } };
    const { tables, placeOf } = validSubset({
      ...least,
      watch: [{ id: 'v', every: 'x', output: { kind: 'x' } }, right],
    });
    expect(tables.watch).toEqual([right]);
    expect(placeOf(['watch', 0, 'output'])).toEqual(['watch', 1, 'output']);
  });

  test('does not say of a default where a wrong value stands', () => {
    const { tables, placeOf } = validSubset({ ...least, update: { schedule: 7 } });
    expect(tables.update?.schedule).toBe('*/15 * * * *');
    expect(placeOf(['update', 'schedule'])).toBeUndefined();
    expect(placeOf(['update', 'health', 'user'])).toEqual(['update', 'health', 'user']);
  });

  test('is found whatever else is there, and never fails', () => {
    fc.assert(
      fc.property(fc.object({ maxDepth: 4 }), fc.object({ maxDepth: 4 }), (other, trust) => {
        const { tables } = validSubset({ ...other, ...least, trust, update: { max_attempts: 4, odd: other } });
        expect(tables.update?.max_attempts).toBe(4);
      }),
    );
  });
});

describe('a step of a schedule', () => {
  test.each([
    '*/15 * * * *',
    '0 */6 * * *',
    '*/60 * * * *',
    '*/30 */15 * * * *',
    '0 0 */31 * *',
    '@daily',
    '5,10 1 * * *',
  ])('of %j is as it seems', (schedule) => {
    expect(describeIdleStep(schedule)).toBeUndefined();
  });

  test.each([
    ['*/90 * * * *', '*/90 is a step beyond the 60 minutes'],
    ['0 */48 * * *', '*/48 is a step beyond the 24 hours'],
    ['*/90 * * * * *', '*/90 is a step beyond the 60 seconds'],
    ['1,0-59/61 * * * *', '0-59/61 is a step beyond the 60 minutes'],
  ])('of %j is not', (schedule, why) => {
    expect(describeIdleStep(schedule)).toContain(why);
  });
});
