import fc from 'fast-check';
import { expect, test } from 'vitest';

import { howMuch } from '../../../full.ts';
import { attempt } from './attempt.ts';
import { buildArtifact } from './build-artifact.ts';
import { flipped, misdeedOf } from './corrupt.ts';
import { makeKeyPair } from './keys.ts';

/** Every byte of an artifact that mender-artifact made is corrupted in mender-artifact.integration.test.ts. */
const { privateKey: key, trusted } = makeKeyPair('ecdsa-p256');
const here = { keys: [trusted], chunkSizes: [64 * 1024] };
const contents = new Map([
  ['a', Buffer.from('first file')],
  ['b', Buffer.alloc(700, 'second')],
]);
const artifact = await buildArtifact({
  name: 'release-2',
  devices: ['gw'],
  files: Array.from(contents, ([name, content]) => ({ name, content })),
  targets: { a: 'gateway', b: 'meter' },
  key,
});

test('the artifact is taken as long as it is whole', async () => {
  expect(await misdeedOf(artifact, contents, here)).toBeUndefined();
  expect((await attempt(artifact, here)).kind).toBe('staged');
});

test('no flipped bits, wherever, change what is written', async () => {
  const flips = fc.tuple(fc.nat({ max: artifact.length - 1 }), fc.integer({ min: 1, max: 255 }));
  await fc.assert(
    fc.asyncProperty(fc.array(flips, { minLength: 1, maxLength: 3 }), async (places) => {
      const corrupted = places.reduce((bytes, [at, bits]) => flipped(bytes, at, bits), artifact);
      expect(await misdeedOf(corrupted, contents, here)).toBeUndefined();
    }),
    { numRuns: howMuch(400, 150) },
  );
});

test('no flipped byte of a payload is taken', async () => {
  const start = artifact.indexOf('first file');
  for (let at = start; at < start + 10; at += 1) {
    const outcome = await attempt(flipped(artifact, at, 1), here);
    expect(outcome).toMatchObject({ kind: 'refused', error: { code: 'digest-mismatch' } });
  }
});

test('refuses every truncated artifact', async () => {
  for (let length = 0; length < artifact.length; length += 64) {
    const outcome = await attempt(artifact.subarray(0, length), here);
    expect(outcome).toMatchObject({ kind: 'refused', error: { code: 'firmware-truncated' } });
  }
});

test('no bytes cut out of the middle, doubled or exchanged are taken for something else', async () => {
  const place = fc.nat({ max: artifact.length });
  await fc.assert(
    fc.asyncProperty(place, place, place, async (one, two, three) => {
      const [a = 0, b = 0, c = 0] = [one, two, three].toSorted((left, right) => left - right);
      const pieces = [artifact.subarray(0, a), artifact.subarray(b, c), artifact.subarray(a, b), artifact.subarray(c)];
      expect(await misdeedOf(Buffer.concat(pieces), contents, here)).toBeUndefined();
      expect(
        await misdeedOf(Buffer.concat([pieces[0] ?? artifact, artifact.subarray(b)]), contents, here),
      ).toBeUndefined();
    }),
    { numRuns: howMuch(200, 80) },
  );
});
