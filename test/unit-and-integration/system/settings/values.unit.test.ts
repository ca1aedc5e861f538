import { expect, test } from 'vitest';

import { interfaceName } from '../../../../src/system/settings/values.ts';

test.each(['wwan0', 'wwan*', 'ü1', 'eth0.7', 'a"b'])('%s names network interfaces', (name) => {
  expect(interfaceName().safeParse(name).success).toBe(true);
});

test.each(['*', 'wwan?', 'ww*n0', 'wwan**', '..', 'a b', 'a/b', ''])(
  '"%s" names none: only a * at the end is a pattern',
  (name) => {
    expect(interfaceName().safeParse(name).success).toBe(false);
  },
);
