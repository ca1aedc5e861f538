import { generateKeyPairSync } from 'node:crypto';

import fc from 'fast-check';
import { Volume } from 'memfs';
import { describe, expect, test } from 'vitest';

import {
  fromFile,
  MAX_LIST_BYTES,
  parseKeptListFile,
  parseTrustListFile,
} from '../../../../src/firmware/trust/trust-list.ts';
import type { TrustListFile } from '../../../../src/firmware/trust/trust-list.ts';
import { TrustStore } from '../../../../src/firmware/trust/trust-store.ts';
import { StorageError } from '../../../../src/system/files/durable-file.ts';
import type { DurableFs } from '../../../../src/system/files/durable-file.ts';
import { makeKeyPair, pemOf } from '../artifact/keys.ts';
import { fingerprint, listBytes, listFile } from './lists.ts';

const { publicPem, trusted } = makeKeyPair('ecdsa-p256');

function storeOn(volume = Volume.fromJSON({ '/state/.keep': '' })): {
  readonly store: TrustStore;
  readonly volume: Volume;
} {
  const fs = volume.promises as unknown as DurableFs;
  return { store: new TrustStore('/state', fs), volume };
}

describe('a list', () => {
  test('lists trusted keys with their validity, and revocations', () => {
    const keys = [{ name: 'next', pem: publicPem, not_before: '2026-12-01', not_after: '2030-01-01T12:00:00Z' }];
    const revoked = { keys: [fingerprint('a')], releases: [fingerprint('b')] };
    expect(fromFile(parseTrustListFile(listBytes({ number: 7, keys, revoked })))).toMatchObject({
      number: 7,
      issuedMs: Date.UTC(2026, 10, 22, 10),
      keys: [
        {
          name: 'next',
          fingerprint: trusted.fingerprint,
          notBeforeMs: Date.UTC(2026, 11, 1),
          notAfterMs: Date.UTC(2030, 0, 1, 12),
        },
      ],
      revoked,
    });
  });

  test.each([
    ['no JSON', Buffer.from('{')],
    ['no UTF-8', Buffer.from([0x22, 0xff, 0x22])],
    ['nested without an end', Buffer.from('['.repeat(100_000))],
    ['too long', Buffer.concat([listBytes(), Buffer.alloc(300_000, ' ')])],
    ['of another version', Buffer.from(JSON.stringify({ ...listFile(), version: 2 }))],
    ['with a member that nobody knows', Buffer.from(JSON.stringify({ ...listFile(), threshold: 2 }))],
    ['without a number', Buffer.from(JSON.stringify({ ...listFile(), number: undefined }))],
    ['with number 0', listBytes({ number: 0 })],
    ['with a number that nothing could follow', listBytes({ number: Number.MAX_SAFE_INTEGER })],
    ['with a digest in capitals', listBytes({ revoked: { keys: [fingerprint('A')], releases: [] } })],
    [
      'with a key twice',
      listBytes({
        keys: [
          { name: 'a', pem: publicPem },
          { name: 'b', pem: publicPem },
        ],
      }),
    ],
    ['with a private key', listBytes({ keys: [{ name: 'a', pem: makeKeyPair('ed25519').privatePem }] })],
    [
      'with a key that ends on the 30th of February',
      listBytes({ keys: [{ name: 'a', pem: publicPem, not_after: '2026-02-30' }] }),
    ],
  ])('that is %s is refused', (_, bytes) => {
    expect(() => fromFile(parseTrustListFile(bytes))).toThrow(
      expect.objectContaining({ code: 'trust-list-malformed' }),
    );
  });
});

describe('the place where the last list is kept', () => {
  test('has none at first', async () => {
    expect(await storeOn().store.read()).toBeUndefined();
  });

  test('takes lists whose number rises, and no older one, also after a restart', async () => {
    const { store, volume } = storeOn();
    await store.take(listFile({ number: 5 }));
    await storeOn(volume).store.take(listFile({ number: 9 }));
    for (const number of [1, 5, 8]) {
      await expect(storeOn(volume).store.take(listFile({ number }))).rejects.toMatchObject({ code: 'trust-list-old' });
    }
    await expect(store.take(listFile({ number: 9, issued: '2026-11-23' }))).rejects.toMatchObject({
      code: 'trust-list-old',
    });
    expect(await store.take(listFile({ number: 9 }))).toBe('known');
    expect((await store.read())?.number).toBe(9);
  });

  // Regression: a thief's list with the highest number could not be replaced by any other one.
  test('takes a list with a lower number only if that revokes the key that signed the last one', async () => {
    const [thief, owner] = ['1', '2'].map((digit) => `sha256:${digit.repeat(64)}`);
    const { store, volume } = storeOn();
    for (const number of [5, 7]) await store.take(listFile({ number }), { signedBy: owner });
    const stolen = { number: 1_000_000_000_000, keys: [{ name: 'thief', pem: publicPem }] };
    await store.take(listFile(stolen), { signedBy: thief });
    const revoking = (number: number, key = ''): TrustListFile =>
      listFile({ number, revoked: { keys: [key], releases: [] } });
    const old = { code: 'trust-list-old' };
    await expect(store.take(revoking(8, owner), { signedBy: owner })).rejects.toMatchObject(old);
    await expect(store.take(revoking(6, thief), { signedBy: owner })).rejects.toMatchObject(old);
    expect(await store.take(revoking(8, thief), { signedBy: owner })).toBe('taken');
    expect(await storeOn(volume).store.read()).toMatchObject({ number: 8, keys: [], revoked: { keys: [thief] } });
    await expect(store.take(listFile({ number: 7 }), { signedBy: owner })).rejects.toMatchObject(old);
  });

  // Regression: after a list that revoked its own signer, an older list of another key brought a dropped key back.
  test('takes no older list after one that revokes its own signer, unless that names this key again', async () => {
    const [retired, other] = ['1', '2'].map((digit) => `sha256:${digit.repeat(64)}`);
    const { store } = storeOn();
    const revoked = { keys: [`${retired}`], releases: [] };
    await store.take(listFile({ number: 5, revoked }), { signedBy: retired });
    const older = listFile({ number: 3, keys: [{ name: 'dropped', pem: publicPem }] });
    await expect(store.take(older, { signedBy: other })).rejects.toMatchObject({ code: 'trust-list-old' });
    expect(await store.take(listFile({ number: 4, revoked }), { signedBy: other })).toBe('taken');
  });

  test('reads the file of a newer agent, which may have more members', async () => {
    const { store, volume } = storeOn();
    await store.take(listFile({ number: 5 }));
    const kept = JSON.parse(String(volume.readFileSync('/state/trust.json'))) as object;
    volume.writeFileSync('/state/trust.json', JSON.stringify({ ...kept, later: true }));
    expect(await storeOn(volume).store.read()).toMatchObject({ number: 5 });
  });

  test('rejects a list that would drop a revocation', async () => {
    const { store } = storeOn();
    const many = (from: number, count: number): readonly string[] =>
      Array.from({ length: count }, (_, index) => `sha256:${(from + index).toString(16).padStart(64, '0')}`);
    await store.take(listFile({ number: 1, revoked: { keys: [...many(0, 200)], releases: [] } }));
    const more = listFile({ number: 2, revoked: { keys: [...many(200, 57)], releases: [] } });
    await expect(store.take(more)).rejects.toMatchObject({ code: 'trust-list-malformed' });
    expect(await store.take(listFile({ number: 2, revoked: { keys: [...many(150, 106)], releases: [] } }))).toBe(
      'taken',
    );
    expect((await store.read())?.revoked.keys).toHaveLength(256);
  });

  test('a damaged file is reported, and replaced by the next list, but never believed', async () => {
    const { store, volume } = storeOn();
    volume.writeFileSync('/state/trust.json', '{"format":"thing-trust"');
    await expect(store.read()).rejects.toMatchObject({ code: 'trust-list-damaged' });
    await store.take(listFile({ number: 3 }));
    expect((await store.read())?.number).toBe(3);
  });

  test('of any lists in any order, the highest number stands, and nothing is believed again that was revoked since', async () => {
    const digests = fc.uniqueArray(fc.constantFrom('a', 'b', 'c', 'd').map(fingerprint));
    const list = fc.record({ number: fc.integer({ min: 1, max: 6 }), keys: digests, releases: digests });
    await fc.assert(
      fc.asyncProperty(fc.array(list, { maxLength: 8 }), async (lists) => {
        const { store, volume } = storeOn();
        const revoked = { keys: new Set<string>(), releases: new Set<string>() };
        let highest = 0;
        for (const { number, keys, releases } of lists) {
          const isNew = number > highest;
          const taken = await store.take(listFile({ number, revoked: { keys, releases } })).catch(() => 'refused');
          expect(taken === 'taken').toBe(isNew);
          if (isNew) {
            highest = number;
            for (const one of keys) revoked.keys.add(one);
            for (const one of releases) revoked.releases.add(one);
          }
          const kept = await storeOn(volume).store.read();
          expect(kept?.number).toBe(highest);
          expect(new Set(kept?.revoked.keys)).toEqual(revoked.keys);
          expect(new Set(kept?.revoked.releases)).toEqual(revoked.releases);
        }
      }),
    );
  });

  test('what it keeps is a list that can be read again', async () => {
    const { store, volume } = storeOn();
    await store.take(listFile({ keys: [{ name: 'a', pem: publicPem }] }));
    const kept = parseKeptListFile(Buffer.from(String(volume.readFileSync('/state/trust.json'))));
    expect(kept).toMatchObject(listFile({ keys: [{ name: 'a', pem: publicPem }] }));
  });
});

// Regression: the file of a gateway was gone, and with it what list 2 had revoked; list 1 was taken again.
test('a file that is gone costs no revocation, and lets no older list in', async () => {
  const { store, volume } = storeOn();
  const revoked = { keys: [], releases: [fingerprint('b')] };
  await store.take(parseTrustListFile(listBytes({ number: 2, revoked })));
  volume.unlinkSync('/state/trust.json');
  expect(await store.read()).toMatchObject({ number: 2, revoked });
  await expect(store.take(parseTrustListFile(listBytes({ number: 1 })))).rejects.toMatchObject({
    code: 'trust-list-old',
  });
  await store.take(parseTrustListFile(listBytes({ number: 3 })));
  volume.unlinkSync('/state/trust-copy.json');
  expect(await store.read()).toMatchObject({ number: 3, revoked });
});

// Regression: after a damage of the one file a list took effect that was older, and signed by a key that was revoked before.
describe('a damaged file with its copy', () => {
  const revoked = { keys: [fingerprint('a')], releases: [fingerprint('b')] };

  async function damaged(): Promise<ReturnType<typeof storeOn>> {
    const place = storeOn();
    await place.store.take(listFile({ number: 2, revoked }));
    place.volume.writeFileSync('/state/trust.json', '{');
    return place;
  }

  test('costs no revocation, and lets no older list in', async () => {
    const { store } = await damaged();
    await expect(store.read()).rejects.toMatchObject({ code: 'trust-list-damaged' });
    expect(await store.lastKnown()).toMatchObject({ number: 2, revoked });
    await expect(store.take(listFile({ number: 1 }))).rejects.toMatchObject({ code: 'trust-list-old' });
    expect(await store.take(listFile({ number: 3 }))).toBe('taken');
    expect(await store.read()).toMatchObject({ number: 3, revoked });
  });

  test('is replaced by the list that it held, too', async () => {
    const { store } = await damaged();
    await store.take(listFile({ number: 2, revoked }));
    expect(await store.read()).toMatchObject({ number: 2, revoked });
  });

  // Regression in the sweep: one failed read, and a revoked release on trial was committed.
  test('that is unreadable yields to the copy, which has the revocations', async () => {
    const { volume } = await damaged();
    const fs = volume.promises as unknown as DurableFs;
    const failing: DurableFs = {
      ...fs,
      open: async (...given) => fs.open(...given),
      rename: async (...given) => fs.rename(...given),
      readFile: async (path) => {
        if (path === '/state/trust.json') throw Object.assign(new Error('EIO'), { code: 'EIO' });
        return fs.readFile(path);
      },
    };
    const store = new TrustStore('/state', failing);
    expect(await store.lastKnown()).toMatchObject({ number: 2, revoked });
    await expect(store.read()).rejects.toBeInstanceOf(StorageError);
  });

  test('names the copy when only that is left, and it is damaged', async () => {
    const { store, volume } = await damaged();
    volume.unlinkSync('/state/trust.json');
    volume.writeFileSync('/state/trust-copy.json', 'x');
    await expect(store.read()).rejects.toThrow('/state/trust-copy.json');
  });
});

// Regression: with both files damaged, list 3 replaced list 6, and a revoked key was trusted again.
describe('the loss of both files', () => {
  const revoked = { keys: [fingerprint('a')], releases: [fingerprint('b')] };
  const file = listFile({ number: 2, revoked, keys: [{ name: 'a', pem: publicPem }] });
  const lose: Readonly<Record<string, (volume: Volume, path: string) => void>> = {
    removed: (volume, path) => volume.unlinkSync(path),
    damaged: (volume, path) => volume.writeFileSync(path, '{'),
  };

  async function lost(how: string): Promise<ReturnType<typeof storeOn>> {
    const place = storeOn();
    await place.store.take(file, { artifact: fingerprint('c') });
    for (const path of ['/state/trust.json', '/state/trust-copy.json']) lose[how]?.(place.volume, path);
    return place;
  }

  test.each(Object.keys(lose))('keeps number and revocations, and accepts a newer list: %s', async (how) => {
    const { store } = await lost(how);
    await expect(store.read()).rejects.toMatchObject({ code: 'trust-list-damaged' });
    expect(await store.lastKnown()).toMatchObject({ number: 2, revoked, keys: [] });
    for (const other of [listFile({ number: 1 }), { ...file, issued: '2026-11-23' }])
      await expect(store.take(other, { artifact: fingerprint('d') })).rejects.toMatchObject({ code: 'trust-list-old' });
    expect(await store.take(listFile({ number: 3 }))).toBe('taken');
    expect(await store.read()).toMatchObject({ number: 3, revoked });
  });

  test.each(Object.keys(lose))('is repaired by the same list: %s', async (how) => {
    const { store } = await lost(how);
    expect(await store.take(file, { artifact: fingerprint('c') })).toBe('taken');
    expect(await store.read()).toMatchObject({ number: 2, revoked, keys: [{ name: 'a' }] });
  });
});

// Regression: list 5 revoked 1,999 releases, and list 6 had long keys: the file of both was longer than a reader accepts.
test('reads again the longest list that it accepts', async () => {
  const { store } = storeOn();
  const digests = (count: number): string[] =>
    Array.from({ length: count }, (_, index) => `sha256:${index.toString(16).padStart(64, '0')}`);
  const before = listBytes({ number: 1, revoked: { keys: digests(256), releases: digests(2_000) } });
  await store.take(parseTrustListFile(before));
  const comment = '# comment\n'.repeat(725);
  const keys = Array.from({ length: 32 }, (_, index) => ({
    name: `k${index}`,
    pem: `${comment}${pemOf(generateKeyPairSync('ed25519').publicKey, 'spki')}`,
  }));
  const longest = listBytes({ number: 2, keys });
  expect(longest.byteLength).toBeGreaterThan(MAX_LIST_BYTES - 4_096);
  await store.take(parseTrustListFile(longest));
  const kept = await store.read();
  expect(kept).toMatchObject({ number: 2, revoked: { keys: digests(256) } });
  expect(kept?.keys).toHaveLength(32);
});
