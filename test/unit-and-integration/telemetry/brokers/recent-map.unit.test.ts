import { expect, test } from 'vitest';

import { RecentMap } from '../../../../src/telemetry/recent-map.ts';

test('keeps the most recently used values', () => {
  let made = 0;
  const map = new RecentMap(2, () => (made += 1));
  expect([map.get('a'), map.get('b'), map.get('a')]).toEqual([1, 2, 1]);
  expect(map.get('c')).toBe(3);
  expect([map.get('a'), map.get('b')]).toEqual([1, 4]);
});
