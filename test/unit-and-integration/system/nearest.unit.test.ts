import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { editDistance, nearest } from '../../../src/system/nearest.ts';

describe('nearest', () => {
  const keys = ['schedule', 'splay', 'choose', 'window', 'password_file', 'key_on_provisioning', 'url'];

  test.each([
    ['shedule', 'schedule'],
    ['scehdule', 'schedule'],
    ['windows', 'window'],
    ['WINDOW', 'window'],
    ['passwordfile', 'password_file'],
    ['password', 'password_file'],
    ['keyOnProvisioning', 'key_on_provisioning'],
    ['urll', 'url'],
  ])('takes %s for %s', (typed, meant) => {
    expect(nearest(typed, keys)).toBe(meant);
  });

  test.each(['colour', 'x', 'zzzzzzzz', ''])('has no idea what "%s" means', (typed) => {
    expect(nearest(typed, keys)).toBeUndefined();
  });

  test('does not look at a word longer than any name, though a name is a part of it', () => {
    expect(nearest(`schedule${'x'.repeat(56)}`, keys)).toBe('schedule');
    expect(nearest(`schedule${'x'.repeat(57)}`, keys)).toBeUndefined();
  });
});

describe('editDistance', () => {
  test('counts a swap of neighbours as one', () => {
    expect(editDistance('shcedule', 'schedule')).toBe(1);
  });

  test('is zero for equal words only, symmetric, and at most the longer length', () => {
    const word = fc.string({ maxLength: 12 });
    fc.assert(
      fc.property(word, word, (a, b) => {
        expect(editDistance(a, b) === 0).toBe(a === b);
        expect(editDistance(a, b)).toBe(editDistance(b, a));
        expect(editDistance(a, b)).toBeLessThanOrEqual(Math.max(a.length, b.length));
      }),
    );
  });
});
