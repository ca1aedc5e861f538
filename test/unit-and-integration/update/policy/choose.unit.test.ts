import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { initialState } from '../../../../src/update/journal/state.ts';
import type { UpdateState, VersionRef } from '../../../../src/update/journal/state.ts';
import { chooseVersion, findCandidate } from '../../../../src/update/policy/choose.ts';
import type { KnownLists } from '../../../../src/update/policy/choose.ts';
import type { ProvisioningService } from '../../../../src/update/ports.ts';
import { compareVersions } from '../../../../src/update/version-order.ts';
import { howMuch } from '../../../full.ts';
import { entryWith } from '../version-entries.ts';

function named(...names: readonly string[]): readonly { readonly id: string; readonly name: string }[] {
  return names.map((name) => ({ id: `id of ${name}`, name }));
}

function installed(name: string): VersionRef {
  return { id: 'what runs', name };
}

const newest = { kind: 'newest' } as const;

describe('choosing among versions', () => {
  test.each([
    [['1.2.0', '1.10.0', '1.9.3'], '1.10.0'],
    [['v2.0.0-rc.1', 'v2.0.0', 'v1.9.9'], 'v2.0.0'],
    [['2.0.0-alpha', '2.0.0-alpha.1', '2.0.0-beta.11', '2.0.0-beta.2'], '2.0.0-beta.11'],
    [['release-3.1', 'release-3.0.9'], 'release-3.1'],
    [['nightly', '0.0.1'], '0.0.1'],
    [['debian-9a', 'debian-10a'], 'debian-10a'],
    [['trixie', 'bookworm'], 'trixie'],
  ])('of %j takes %s as the newest', (names, expected) => {
    expect(chooseVersion(named(...names), newest, undefined)?.name).toBe(expected);
  });

  test('never chooses a version before the installed one, so that two versions cannot alternate', () => {
    expect(chooseVersion(named('1.0.0'), newest, installed('2.0.0'))).toBeUndefined();
    expect(chooseVersion(named('1.0.0', '2.1.0'), newest, installed('2.0.0'))?.name).toBe('2.1.0');
  });

  test('takes the first, the last, or the newest that matches a pattern', () => {
    const versions = named('stable-1.0', 'beta-9.0', 'stable-1.5', 'beta-0.1');
    expect(chooseVersion(versions, { kind: 'first' }, undefined)?.name).toBe('stable-1.0');
    expect(chooseVersion(versions, { kind: 'last' }, undefined)?.name).toBe('beta-0.1');
    expect(chooseVersion(versions, { kind: 'pattern', pattern: /^stable-/ }, undefined)?.name).toBe('stable-1.5');
  });

  test('of no versions takes none', () => {
    expect(chooseVersion([], newest, installed('1.0.0'))).toBeUndefined();
  });

  test('finds the same newest version in whatever order the service lists them', () => {
    const part = fc.nat({ max: 30 });
    const version = fc.tuple(part, part, part).map((parts) => parts.join('.'));
    fc.assert(
      fc.property(fc.uniqueArray(version, { minLength: 1 }), (names) => {
        const chosen = chooseVersion(named(...names), newest, undefined);
        expect(chooseVersion(named(...names.toReversed()), newest, undefined)).toEqual(chosen);
      }),
    );
  });

  // Regression: 1.2.3 and latest, bookworm and trixie replaced one another at each check.
  test.each([
    ['1.2.3', 'latest'],
    ['bookworm', 'trixie'],
    ['1.4.0', '1.4.0'],
    ['1.0.0', 'v1.0'],
    ['1.0.0+a', '1.0.0+b'],
    ['build-7', 'build-07'],
  ])('%s and %s never take turns', (one, two) => {
    const versions = [
      { id: 'x', name: one },
      { id: 'y', name: two },
    ];
    expect(installsUntilRest(versions, 'x') + installsUntilRest(versions, 'y')).toBe(1);
  });

  test('comes to rest whatever versions are called, in whatever order the service lists them', () => {
    const names = fc.oneof(
      fc.constantFrom(
        'latest',
        'bookworm',
        'trixie',
        'v1',
        '1.0',
        '1.0.0',
        '01.0.0',
        '1.0.0-rc',
        '1.0.0+b',
        'x2',
        'x10',
      ),
      fc.string({ maxLength: 6, unit: fc.constantFrom('0', '1', '9', '.', '-', 'a', 'v', ' ') }),
    );
    const versions = fc.uniqueArray(fc.record({ id: fc.string({ maxLength: 2 }), name: names }), {
      minLength: 1,
      maxLength: 6,
      selector: ({ id }) => id,
    });
    fc.assert(
      fc.property(versions, fc.func(fc.nat()), (listed, shuffle) => {
        for (const { id } of listed) {
          expect(
            installsUntilRest(listed, id, (all, look) => (shuffle(look) % 2 === 0 ? all : all.toReversed())),
          ).toBeLessThan(listed.length);
        }
      }),
    );
  });

  test('orders any three versions the same way round', () => {
    const text = fc.string({ maxLength: 5, unit: fc.constantFrom('0', '1', '.', '-', 'a', '+') });
    const version = fc.record({ id: text, name: text });
    fc.assert(
      fc.property(version, version, version, (a, b, c) => {
        const sign = (one: VersionRef, two: VersionRef): number => Math.sign(compareVersions(one, two));
        expect(sign(a, b)).toBe(0 - sign(b, a));
        expect(sign(a, b) === 0).toBe(a.name === b.name && a.id === b.id);
        const sorted = [a, b, c].toSorted(compareVersions);
        expect([c, a, b].toSorted(compareVersions)).toEqual(sorted);
      }),
      { numRuns: howMuch(1_000, 1_000, 200) },
    );
  });
});

type Listing = readonly { readonly id: string; readonly name: string }[];

/** Number of installations of another version in repeated checks. */
function installsUntilRest(
  versions: Listing,
  from: string,
  list = (all: Listing, _look: number): Listing => all,
): number {
  let runs = versions.find(({ id }) => id === from);
  for (let installs = 0; installs < 20; installs += 1) {
    const others = list(versions, installs).filter(({ id }) => id !== runs?.id);
    const next = chooseVersion(others, newest, runs);
    if (next === undefined) return installs;
    runs = next;
  }
  throw new Error('it never comes to rest');
}

test('a careless pattern is ended, and names itself', () => {
  const pattern = /^(\w+\s?)*=(\d+)$/u;
  expect(() => chooseVersion(named(`${'a'.repeat(60)}!`), { kind: 'pattern', pattern }, undefined)).toThrow(
    '[update] choose: /^(\\w+\\s?)*=(\\d+)$/u needs more than 1000 ms',
  );
});

describe('among the versions to which it can switch, a gateway', () => {
  const state = {
    ...initialState,
    installed: { version: { id: '7', name: '1.4.0' }, provides: {}, at: '' },
  } as UpdateState;
  const signal = new AbortController().signal;

  async function found(
    names: readonly string[],
    options: { number?: number; state?: UpdateState; isGenuine?: KnownLists['isGenuine'] } = {},
  ): Promise<unknown> {
    const service = {
      updates: async () => names.map((name) => ({ id: name, name })),
    } as unknown as ProvisioningService;
    const lists = { number: options.number, nowMs: Number.NaN, isGenuine: options.isGenuine ?? (async () => true) };
    const choices = [{ kind: 'newest' }, { kind: 'pattern', pattern: /^1\./u }] as const;
    const looks = choices.map(async (choice) =>
      findCandidate({ kind: 'updates', choice }, { state: options.state ?? state, lists }, service, signal),
    );
    const [one, other] = await Promise.all(looks);
    expect(other).toEqual(one);
    return one?.name;
  }

  const refused = (id: string) => entryWith({ version: { id, name: id }, begun: 3, failed: 3, gaveUp: 3 });

  // Regression: trust-1, the name that the agent itself proposes, is older than 1.4.0, and was never looked at.
  test('finds the newest trust list by its name before any release, with any order of choice', async () => {
    expect(await found(['trust-1'])).toBe('trust-1');
    expect(await found(['1.6.0', 'trust-1', 'trust-12', 'trust-2'])).toBe('trust-12');
  });

  test('takes no list twice, nor an older one, and no list for a release', async () => {
    expect(await found(['1.6.0', 'trust-1', 'trust-2'], { number: 2 })).toBe('1.6.0');
    expect(await found(['trust-1', 'trust-2'], { number: 2 })).toBeUndefined();
    expect(await found(['trust-0', 'trust-1x'], { number: 2 })).toBeUndefined();
  });

  test('continues with releases if a list was rejected repeatedly', async () => {
    const versions = [refused('trust-3')];
    expect(await found(['1.6.0', 'trust-3'], { state: { ...state, versions } })).toBe('1.6.0');
  });

  // Regression: of two rejected lists, each was forgotten while the other one was tried, and no release followed.
  test('continues with releases if two lists were', async () => {
    const both = { ...state, versions: [refused('trust-2'), refused('trust-3')] };
    expect(await found(['1.6.0', 'trust-2', 'trust-3'], { state: both })).toBe('1.6.0');
  });

  test('takes a list again after its pause, whatever the number of failures', async () => {
    const entry = { ...refused('trust-3'), failed: 50, gaveUp: 50, looks: 95 };
    expect(await found(['1.6.0', 'trust-3'], { state: { ...state, versions: [entry] } })).toBe('trust-3');
  });

  test('skips a version that only has the name of a list', async () => {
    const isGenuine: KnownLists['isGenuine'] = async ({ name }) => name === 'trust-2';
    expect(await found(['1.6.0', 'trust-2', 'trust-3'], { isGenuine })).toBe('trust-2');
    expect(await found(['1.6.0', 'trust-3'], { isGenuine })).toBe('1.6.0');
  });
});
