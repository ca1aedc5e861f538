import { expect, test } from 'vitest';

import { searchWithin } from '../../../src/system/pattern.ts';

test('an expression finds in each text what it finds', () => {
  const found = searchWithin(/t=(?<t>\d+)/, ['t=21', 'x', 'u t=5'], 1_000);
  expect(found?.map((match) => match?.groups?.['t'])).toEqual(['21', undefined, '5']);
});

test('an endless expression is stopped', () => {
  expect(searchWithin(/^(\w+\s?)*=(\d+)$/, [`${'a'.repeat(50)}!`], 20)).toBeUndefined();
  expect(searchWithin(/a/, ['a'], 1_000)).toHaveLength(1);
});
