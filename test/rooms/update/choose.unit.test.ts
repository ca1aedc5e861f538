import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { chooseVersion } from '../../../src/update/choose.ts';

function named(...names: readonly string[]): readonly { readonly id: string; readonly name: string }[] {
  return names.map((name) => ({ id: `id of ${name}`, name }));
}

const newest = { kind: 'newest' } as const;

describe('choosing among versions', () => {
  test.each([
    [['1.2.0', '1.10.0', '1.9.3'], '1.10.0'],
    [['v2.0.0-rc.1', 'v2.0.0', 'v1.9.9'], 'v2.0.0'],
    [['2.0.0-alpha', '2.0.0-alpha.1', '2.0.0-beta.11', '2.0.0-beta.2'], '2.0.0-beta.11'],
    [['release-3.1', 'release-3.0.9'], 'release-3.1'],
    [['nightly', '0.0.1'], '0.0.1'],
  ])('of %j takes %s as the newest', (names, expected) => {
    expect(chooseVersion(named(...names), newest, '')?.name).toBe(expected);
  });

  test('never goes back behind what is installed, so that two versions cannot take turns', () => {
    expect(chooseVersion(named('1.0.0'), newest, '2.0.0')).toBeUndefined();
    expect(chooseVersion(named('1.0.0', '2.1.0'), newest, '2.0.0')?.name).toBe('2.1.0');
  });

  test('takes the first, the last, or the newest that matches a pattern', () => {
    const versions = named('stable-1.0', 'beta-9.0', 'stable-1.5', 'beta-0.1');
    expect(chooseVersion(versions, { kind: 'first' }, '')?.name).toBe('stable-1.0');
    expect(chooseVersion(versions, { kind: 'last' }, '')?.name).toBe('beta-0.1');
    expect(chooseVersion(versions, { kind: 'pattern', pattern: /^stable-/ }, '')?.name).toBe('stable-1.5');
  });

  test('of no versions takes none', () => {
    expect(chooseVersion([], newest, '1.0.0')).toBeUndefined();
  });

  test('finds the same newest version in whatever order the service lists them', () => {
    const part = fc.nat({ max: 30 });
    const version = fc.tuple(part, part, part).map((parts) => parts.join('.'));
    fc.assert(
      fc.property(fc.uniqueArray(version, { minLength: 1 }), (names) => {
        const chosen = chooseVersion(named(...names), newest, '');
        expect(chooseVersion(named(...names.toReversed()), newest, '')).toEqual(chosen);
      }),
    );
  });
});
