import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { AgentError } from '../../../../src/system/errors.ts';
import { raiseFloor, raiseFloors } from '../../../../src/update/journal/places.ts';
import { advance } from '../../../../src/update/journal/reducer.ts';
import { initialState } from '../../../../src/update/journal/state.ts';
import type { Floor, Floors, Installed } from '../../../../src/update/journal/state.ts';
import {
  belowFloor,
  refuseMisnamed,
  refuseOldBoards,
  refuseRelease,
} from '../../../../src/update/policy/release-rules.ts';
import type { FirmwareHeader } from '../../../../src/update/ports.ts';
import { compareSemanticNames } from '../../../../src/update/version-order.ts';

const settings = { nameCheck: 'strict', downgrade: 'allow' } as const;

function signed(name: string, securityVersion?: number): FirmwareHeader {
  return { kind: 'artifact', digest: 'sha256:00', name, signedBy: 'release.pem', securityVersion, payloads: [] };
}

function codeOf(work: () => unknown): string | undefined {
  try {
    work();
    return undefined;
  } catch (error) {
    return error instanceof AgentError ? error.code : String(error);
  }
}

const release = fc.record({
  signedBy: fc.constantFrom('release.pem', undefined),
  name: fc.constantFrom('1.0.0', '1.0.1', '2.0.0-rc.1', '2.0.0', 'nightly', undefined),
  securityVersion: fc.option(fc.nat(5), { nil: undefined }),
}) satisfies fc.Arbitrary<Floor>;

describe('a signed release', () => {
  const ordinary = { allowDowngrade: false };

  test('is refused under another name than its own, unless the operator configured that it may have any', () => {
    const offered = (name: string) => ({ by: 'service', version: { id: '1', name } }) as const;
    expect(() => refuseMisnamed(signed('1.0.0'), offered('9.9.9'), settings)).toThrow(
      expect.objectContaining({ code: 'name-mismatch', exit: 'refused' }),
    );
    refuseMisnamed(signed('1.0.0'), offered('1.0.0'), settings);
    refuseMisnamed(signed('1.0.0'), { ...offered('9.9.9'), by: 'file' }, settings);
    refuseMisnamed(signed('1.0.0'), offered('9.9.9'), { nameCheck: 'off' });
    refuseMisnamed({ ...signed('1.0.0'), signedBy: undefined }, offered('9.9.9'), settings);
  });

  test('is refused below the security version that was installed before, also where it has none', () => {
    const floor: Floor = { securityVersion: 4 };
    for (const old of [signed('1.0.0', 3), signed('1.0.0')]) {
      expect(() => refuseRelease(old, { floor }, settings, ordinary)).toThrow(
        expect.objectContaining({ code: 'downgrade', exit: 'refused' }),
      );
    }
    expect(refuseRelease(signed('1.0.0', 4), { floor }, settings, ordinary)).toBeUndefined();
  });

  test('below the minimum is installed if root forces it, and the reason against it is reported', () => {
    const why = refuseRelease(signed('1.0.0', 3), { floor: { securityVersion: 4 } }, settings, {
      allowDowngrade: true,
    });
    expect(why).toBe('has security version 3, and 4 was installed before');
  });

  test('without a security version may be an older one, unless the operator refuses that', () => {
    const floor: Floor = { name: '1.4.0' };
    expect(belowFloor(signed('1.3.9'), floor, { downgrade: 'allow' })).toBeUndefined();
    expect(belowFloor(signed('1.3.9'), floor, { downgrade: 'refuse' })).toBe(
      'is older than 1.4.0, which was installed before',
    );
    expect(belowFloor(signed('nightly'), floor, { downgrade: 'refuse' })).toBe('has no semantic version as its name');
    expect(belowFloor(signed('1.10.0'), floor, { downgrade: 'refuse' })).toBeUndefined();
  });

  test.each([
    [undefined, false, 'downgrade'],
    [undefined, undefined, undefined],
    ['allow', false, undefined],
    ['refuse', undefined, 'downgrade'],
  ] as const)(
    'that is older, with downgrade %s and allowDowngrade %s, ends with %s',
    (downgrade, allowDowngrade, code) => {
      const payloads = [{ target: 'meter', kind: 'mcu', imageVersion: '1.0.0' }] as const;
      const floors = { floor: { name: '1.4.0' }, boardFloors: { meter: { name: '1.4.0' } } };
      expect(codeOf(() => refuseRelease(signed('1.0.0'), floors, { downgrade }, { allowDowngrade }))).toBe(code);
      expect(codeOf(() => refuseOldBoards({ payloads }, floors, { downgrade }, { allowDowngrade }))).toBe(code);
    },
  );
});

test('an unsigned release has no claims: they neither reject it nor raise the minimum', () => {
  const unsigned = { ...signed('1.0.0', 7), signedBy: undefined };
  const floor: Floor = { securityVersion: 9, name: '9.0.0' };
  expect(refuseRelease(unsigned, { floor }, settings, { allowDowngrade: false })).toBeUndefined();
  expect(raiseFloors({ floor }, { ...unsigned, digest: '', provides: {}, payloads: [] }).floor).toBe(floor);
});

// Regression: until the first commit, any older signed release was accepted, and again after an unsigned one.
describe('the version of a factory image', () => {
  const unsigned = { digest: '', provides: {}, payloads: [] };
  const installed = (name: string): Installed => ({ ...unsigned, factory: true, version: { name }, slot: 'A', at: '' });
  const startWith = (name: string): Floors =>
    advance(initialState, { type: 'factory-version', installed: installed(name) });
  const older = ({ floor }: Floors): string | undefined =>
    codeOf(() => refuseRelease(signed('1.0.0'), { floor }, { downgrade: 'refuse' }, {}));

  test.each([
    ['5.0.0', 'downgrade'],
    ['1.0.0', undefined],
    ['factory', undefined],
  ])('%s is the minimum at first', (name, code) => {
    expect(older(startWith(name))).toBe(code);
  });

  test('stays the minimum after an unsigned release, and until the first signed one', () => {
    const afterUnsigned = raiseFloors(startWith('5.0.0'), unsigned);
    expect(older(afterUnsigned)).toBe('downgrade');
    expect(older(raiseFloors(afterUnsigned, { ...unsigned, name: '0.9.0', signedBy: 'release.pem' }))).toBeUndefined();
  });
});

test('for any installations in any order, the minimum never falls, and a version at the minimum is not below it', () => {
  fc.assert(
    fc.property(fc.array(release, { maxLength: 8 }), (releases) => {
      const floors: (Floor | undefined)[] = [undefined];
      for (const one of releases) floors.push(raiseFloor(floors.at(-1), one));
      const last = floors.at(-1) ?? {};
      const fallen = floors.filter((floor) => belowFloor(last, floor ?? {}, { downgrade: 'refuse' }) !== undefined);
      expect(fallen.filter((floor) => floor?.name !== undefined || floor?.securityVersion !== undefined)).toEqual([]);
    }),
  );
});

describe('the floor of a board', () => {
  const counterOf = ({ boardFloors }: Floors, board: string): number => boardFloors?.[board]?.securityVersion ?? 0;
  const versionOf = ({ boardFloors }: Floors, board: string): string => boardFloors?.[board]?.name ?? '';
  const image = fc.record({
    sizeBytes: fc.constant(1),
    digest: fc.constant('sha256:1'),
    target: fc.constantFrom('meter', 'relay', 'gateway'),
    kind: fc.constantFrom('mcu' as const, 'slots' as const),
    securityCounter: fc.option(fc.nat(5), { nil: undefined }),
    imageVersion: fc.option(
      fc.tuple(fc.nat(2), fc.nat(2)).map(([major, minor]) => `${major}.${minor}.0+7`),
      {
        nil: undefined,
      },
    ),
  });
  const images = fc.record({
    digest: fc.constant('sha256:0'),
    provides: fc.constant({}),
    signedBy: fc.constantFrom('release.pem', undefined),
    payloads: fc.uniqueArray(image, { selector: ({ target }) => target }),
  });

  test('never falls, is raised only by signatures of trusted keys, and rejects any version below it', () => {
    fc.assert(
      fc.property(fc.array(images), images, (before, next) => {
        const floors = before.reduce<Floors>(raiseFloors, {});
        const raised = raiseFloors(floors, next);
        for (const board of Object.keys(floors.boardFloors ?? {})) {
          expect(counterOf(raised, board)).toBeGreaterThanOrEqual(counterOf(floors, board));
          expect(compareSemanticNames(versionOf(raised, board), versionOf(floors, board))).toBeGreaterThanOrEqual(0);
        }
        expect(next.signedBy === undefined ? raised : floors).toEqual(floors);
        const boards = next.payloads.filter(({ kind }) => kind === 'mcu');
        const byCounter = boards.some(
          ({ target, securityCounter }) => (securityCounter ?? 0) < counterOf(floors, target),
        );
        const byVersion = boards.some(
          ({ target, imageVersion }) => compareSemanticNames(imageVersion ?? '', versionOf(floors, target)) < 0,
        );
        const why = (downgrade: 'allow' | 'refuse') =>
          refuseOldBoards(next, floors, { downgrade }, { allowDowngrade: true });
        expect(why('allow') !== undefined).toBe(byCounter);
        expect(why('refuse') !== undefined).toBe(byCounter || byVersion);
      }),
    );
  });

  test('names the board and both numbers', () => {
    const payloads = [{ target: 'meter', kind: 'mcu', securityCounter: 3, imageVersion: '1.9.0' }] as const;
    const refuse = (floors: Floors) => () =>
      refuseOldBoards({ name: '1.0.0', payloads }, floors, { downgrade: 'refuse' }, {});
    expect(refuse({ boardFloors: { meter: { securityVersion: 4 } } })).toThrow(
      'release "1.0.0" has security counter 3 for meter, and 4 was installed before',
    );
    expect(refuse({ boardFloors: { meter: { name: '1.10.0' } } })).toThrow(
      'release "1.0.0" has version 1.9.0 for meter, which is older than 1.10.0, which was installed before',
    );
  });
});
