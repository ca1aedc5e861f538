import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { findIncompatibility, matches, providesAfter } from '../../../../src/firmware/artifact/compatibility.ts';
import type { ArtifactDescription, PayloadDescription } from '../../../../src/firmware/artifact/header.ts';

const payload: PayloadDescription = {
  type: 'x',
  provides: {},
  depends: {},
  clears: [],
  targets: undefined,
  deltas: new Map(),
  order: [],
};

function artifact(changes: Partial<ArtifactDescription>): ArtifactDescription {
  return {
    name: 'r2',
    provides: { artifact_name: 'r2' },
    depends: { device_type: ['gw'] },
    payloads: [payload],
    ...changes,
  };
}

describe('an artifact fits', () => {
  test('the device type that it names among others', () => {
    expect(findIncompatibility(artifact({ depends: { device_type: ['other', 'gw'] } }), 'gw', {})).toBeUndefined();
  });

  test('where each need is met by one of the values that it lists', () => {
    const depends = { device_type: ['gw'], artifact_name: ['r0', 'r1'], 'rootfs-image.checksum': ['ab'] };
    const installed = { artifact_name: 'r1', 'rootfs-image.checksum': 'ab' };
    expect(findIncompatibility(artifact({ depends }), 'gw', installed)).toBeUndefined();
  });
});

describe('an artifact does not fit', () => {
  test('another device type, whichever claims were installed before', () => {
    expect(findIncompatibility(artifact({}), 'other', { device_type: 'gw' })).toMatchObject({ kind: 'device-type' });
  });

  test('a device type that only a payload excludes', () => {
    const payloads = [payload, { ...payload, depends: { device_type: ['other'] } }];
    expect(findIncompatibility(artifact({ payloads }), 'gw', {})).toMatchObject({ kind: 'device-type' });
  });

  test.each([
    ['artifact_name', { artifact_name: ['r1'] }, { artifact_name: 'r0' }],
    ['artifact_group', { artifact_group: ['beta'] }, {}],
    ['an empty list', { artifact_name: [] }, { artifact_name: 'r1' }],
  ])('where %s is not what it needs', (_, needs, installed) => {
    const depends = { device_type: ['gw'], ...needs };
    expect(findIncompatibility(artifact({ depends }), 'gw', installed)).toMatchObject({ kind: 'depends' });
  });
});

describe('what is provided after', () => {
  const installed = { artifact_name: 'r1', artifact_group: 'g', 'rootfs-image.version': '1', 'data.version': '7' };

  test('keeps what the payload does not clear, and adds what it brings', () => {
    const payloads = [
      { ...payload, provides: { 'rootfs-image.version': '2' }, clears: ['artifact_group', 'rootfs-image.*'] },
    ];
    expect(providesAfter(artifact({ payloads }), installed)).toEqual({
      artifact_name: 'r2',
      'rootfs-image.version': '2',
      'data.version': '7',
    });
  });

  test('is only what it brings where it clears everything', () => {
    expect(providesAfter(artifact({ payloads: [{ ...payload, clears: ['*'] }] }), installed)).toEqual({
      artifact_name: 'r2',
    });
  });

  test('joins what several payloads clear and bring', () => {
    const payloads = [
      { ...payload, clears: ['data.*'] },
      { ...payload, provides: { 'mcu.version': '3' }, clears: ['rootfs-image.*'] },
    ];
    expect(providesAfter(artifact({ payloads }), installed)).toEqual({
      artifact_name: 'r2',
      artifact_group: 'g',
      'mcu.version': '3',
    });
  });
});

describe('a pattern', () => {
  test.each([
    ['abc', 'abc', true],
    ['abc', 'ab', false],
    ['abc', '*', true],
    ['', '*', true],
    ['a.b', 'a*b', true],
    ['ab', 'a*b', true],
    ['a', 'a*a', false],
    ['axbxc', 'a*b*c', true],
    ['axcxb', 'a*b*c', false],
    ['aXb', 'a.b', false],
    ['xab', 'ab*', false],
    ['abx', '*ab', false],
    ['abab', '*ab', true],
    ['ab', 'a**b', true],
  ])('%j against %j: %s', (text, pattern, expected) => {
    expect(matches(text, pattern)).toBe(expected);
  });

  test('means what the same pattern as a regular expression means', () => {
    const letters = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 8 });
    const patterns = fc.string({ unit: fc.constantFrom('a', 'b', '*'), maxLength: 6 });
    fc.assert(
      fc.property(letters, patterns, (text, pattern) => {
        expect(matches(text, pattern)).toBe(new RegExp(`^${pattern.replaceAll(/\*+/g, '.*')}$`).test(text));
      }),
    );
  });
});
