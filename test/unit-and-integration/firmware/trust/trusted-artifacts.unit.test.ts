import { describe, expect, test } from 'vitest';

import type { TrustSettings } from '../../../../src/firmware/artifact/trust.ts';
import { attempt } from '../artifact/attempt.ts';
import { buildArtifact } from '../artifact/build-artifact.ts';
import { makeKeyPair } from '../artifact/keys.ts';
import { listArtifact, listBytes } from './lists.ts';

const old = makeKeyPair('ecdsa-p256', 'old');
const next = makeKeyPair('ed25519', 'next');
const none: ReadonlySet<string> = new Set();

/** Returns the code of a rejection, or the changes of a list. */
async function offer(artifact: Uint8Array, trust: Partial<TrustSettings> = {}): Promise<string> {
  let taken: string | undefined;
  const takeList = async (list: Uint8Array): Promise<void> => {
    taken = `list ${Buffer.from(list).toString('utf8').length}`;
  };
  const outcome = await attempt(artifact, {
    trust: { keys: [old.trusted, next.trusted], allowUnsigned: false, takeList, ...trust },
  });
  if (outcome.kind === 'refused') return taken === undefined ? outcome.error.code : `${outcome.error.code}, but taken`;
  return taken ?? `staged, signed by ${outcome.staged.header.signedBy}`;
}

const image = [{ name: 'rootfs', content: Buffer.from('root') }];
const release = await buildArtifact({ name: 'r', devices: ['gw'], files: image, key: old.privateKey });
const list = listBytes({ number: 4 });
const taken = `list ${list.length}`;

describe('a release', () => {
  test('of a key that was revoked is refused, and of no other', async () => {
    const revoked = { keys: new Set([old.trusted.fingerprint]), releases: none };
    expect(await offer(release, { revoked })).toBe('key-revoked');
    expect(await offer(release)).toBe(`staged, signed by ${old.trusted.fingerprint}`);
    const again = await buildArtifact({ name: 'r', devices: ['gw'], files: image, key: next.privateKey });
    expect(await offer(again, { revoked })).toBe(`staged, signed by ${next.trusted.fingerprint}`);
  });

  test('that was revoked by its digest is rejected with any signature', async () => {
    const outcome = await attempt(release, { keys: [old.trusted] });
    const digest = outcome.kind === 'staged' ? outcome.staged.digest : '';
    expect(await offer(release, { revoked: { keys: none, releases: new Set([digest]) } })).toBe('release-revoked');
    const unsigned = { allowUnsigned: true, keys: [], revoked: { keys: none, releases: new Set([digest]) } };
    expect(await offer(release, unsigned)).toBe('release-revoked');
  });

  test.each([
    ['is over', { notAfterMs: 100 }, 'key-expired'],
    ['has not come', { notBeforeMs: 200 }, 'key-not-yet-valid'],
    ['is now', { notBeforeMs: 100, notAfterMs: 101 }, `staged, signed by ${old.trusted.fingerprint}`],
  ])('of a key whose time %s', async (_, life, outcome) => {
    const keys = [{ ...old.trusted, ...life }];
    expect(await offer(release, { keys, time: { nowMs: 100, atLeastMs: undefined } })).toBe(outcome);
  });

  test('is rejected while the revocations are unknown, but a list is accepted', async () => {
    const { error: damage } = await refusalOf(Buffer.from('no artifact'));
    expect(await offer(release, { damage })).toBe(damage.code);
    expect(await offer(await listArtifact(list, old.privateKey), { damage })).toBe(taken);
  });
});

async function refusalOf(artifact: Uint8Array) {
  const outcome = await attempt(artifact);
  if (outcome.kind === 'refused') return outcome;
  throw new Error('it was taken');
}

describe('a trust list', () => {
  test('signed by a trusted key is taken, and goes into no target', async () => {
    const outcome = await attempt(await listArtifact(list, old.privateKey), {
      trust: { keys: [old.trusted], allowUnsigned: false, takeList: async () => {} },
    });
    expect(outcome).toMatchObject({
      kind: 'staged',
      staged: { header: { kind: 'trust-list', payloads: [] }, payloads: [] },
    });
    expect(outcome.gateway.opened).toEqual([]);
  });

  test.each([
    ['unsigned', async () => listArtifact(list, undefined), {}, 'artifact-unsigned'],
    [
      'unsigned, where releases may be',
      async () => listArtifact(list, undefined),
      { allowUnsigned: true },
      'artifact-unsigned',
    ],
    [
      'signed by a stranger, where releases may be unsigned',
      async () => listArtifact(list, makeKeyPair('ed25519').privateKey),
      { allowUnsigned: true },
      'artifact-unsigned',
    ],
    [
      'signed by a key that was revoked',
      async () => listArtifact(list, old.privateKey),
      { revoked: { keys: new Set([old.trusted.fingerprint]), releases: none } },
      'key-revoked',
    ],
    [
      'signed by a key that has expired',
      async () => listArtifact(list, old.privateKey),
      { keys: [{ ...old.trusted, notAfterMs: 1 }], time: { nowMs: 2, atLeastMs: undefined } },
      'key-expired',
    ],
    [
      'beside an image',
      async () => listArtifact(list, old.privateKey, { furtherPayloads: [{ files: image }] }),
      {},
      'trust-list-malformed',
    ],
    [
      'of two files',
      async () =>
        listArtifact(list, old.privateKey, {
          files: [
            { name: 'a', content: list },
            { name: 'b', content: list },
          ],
        }),
      {},
      'trust-list-malformed',
    ],
    [
      'that names a target',
      async () => listArtifact(list, old.privateKey, { targets: { 'trust.json': 'gateway' } }),
      {},
      'trust-list-malformed',
    ],
    [
      'without an end',
      async () => listArtifact(Buffer.alloc(300_000, '['), old.privateKey),
      {},
      'trust-list-malformed',
    ],
    [
      'where none are taken',
      async () => listArtifact(list, old.privateKey),
      { takeList: undefined },
      'trust-list-malformed',
    ],
    [
      'whose bytes are not those that were signed',
      async () =>
        listArtifact(list, old.privateKey, {
          edit: { data: () => [{ name: 'trust.json', content: listBytes({ number: 5 }) }] },
        }),
      {},
      'digest-mismatch',
    ],
    [
      'for other devices',
      async () => listArtifact(list, old.privateKey, { devices: ['other'] }),
      {},
      'device-type-mismatch',
    ],
  ])('that is %s is refused, and nothing of it is kept', async (_, make, trust, code) => {
    expect(await offer(await make(), trust)).toBe(code);
  });

  test('is rejected if truncated anywhere', async () => {
    const whole = await listArtifact(list, old.privateKey);
    for (let length = 0; length < whole.byteLength - 1024; length += 97) {
      expect(await offer(whole.subarray(0, length))).not.toBe(taken);
    }
  });
});
