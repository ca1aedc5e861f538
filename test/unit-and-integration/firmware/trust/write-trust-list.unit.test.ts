import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { beforeEach, describe, expect, test } from 'vitest';

import { writeTrustList } from '../../../../src/firmware/trust/write-trust-list.ts';
import type { ListOrder } from '../../../../src/firmware/trust/write-trust-list.ts';
import { folderUntilTestEnds } from '../../../until-test-ends.ts';
import { makeKeyPair } from '../artifact/keys.ts';
import { fingerprint, listBytes } from './lists.ts';

const nothing: ListOrder = {
  from: undefined,
  number: undefined,
  keys: [],
  notBefore: undefined,
  notAfter: undefined,
  revokedKeys: [],
  revokedReleases: [],
};
const now = Date.UTC(2026, 10, 22);

let folder: string;
let last: string;

beforeEach(() => {
  folder = folderUntilTestEnds();
  last = join(folder, 'last.json');
  writeFileSync(join(folder, 'next.pem'), makeKeyPair('ecdsa-p256').publicPem);
});

const at = (name: string): string => join(folder, name);

// Regression: the command waited for a pipe for ever, past a SIGTERM, and read a device until the memory was full.
test.each([
  ['a pipe', () => execFileSync('mkfifo', [last])],
  ['a device without an end', () => symlinkSync('/dev/zero', last)],
])('rejects a previous list that is %s', async (_, plant) => {
  plant();
  await expect(writeTrustList(at('next.json'), { ...nothing, from: last }, now)).rejects.toMatchObject({
    code: 'file-unreadable',
    message: `${last} cannot be read: it is not a regular file`,
  });
});

test('rejects a previous list that is too long', async () => {
  writeFileSync(last, ' '.repeat(256 * 1024 + 1));
  await expect(writeTrustList(at('next.json'), { ...nothing, from: last }, now)).rejects.toMatchObject({
    code: 'trust-list-malformed',
    message: expect.stringContaining('it is longer than 262144 bytes') as string,
  });
});

describe('a file that exists', () => {
  beforeEach(async () => {
    await writeTrustList(last, { ...nothing, revokedReleases: [fingerprint('b')] }, now);
  });

  test('is never replaced by a list that forgets what it revokes', async () => {
    const before = readFileSync(last, 'utf8');
    writeFileSync(at('other.json'), before);
    for (const from of [undefined, at('other.json')]) {
      await expect(writeTrustList(last, { ...nothing, from, keys: [at('next.pem')] }, now)).rejects.toMatchObject({
        code: 'trust-list-exists',
        exit: 'usage',
        message: `${last} exists`,
        advice: `continue it (--from ${last}), or name a file that does not exist`,
      });
    }
    expect(readFileSync(last, 'utf8')).toBe(before);
  });

  test('refuses to write a list that no gateway would read', async () => {
    const digests = Array.from({ length: 2_000 }, (_, index) => `sha256:${index.toString(16).padStart(64, '0')}`);
    const keys = Array.from({ length: 18 }, (_, index) => ({
      name: `k${index}`,
      pem: `${'# comment\n'.repeat(500)}${makeKeyPair('ed25519').publicPem}`,
    }));
    writeFileSync(at('long.json'), listBytes({ keys, revoked: { keys: [], releases: digests } }));
    await expect(writeTrustList(at('longer.json'), { ...nothing, from: at('long.json') }, now)).rejects.toMatchObject({
      code: 'trust-list-malformed',
    });
    expect(existsSync(at('longer.json'))).toBe(false);
  });

  test('is replaced by its successor under any name', async () => {
    symlinkSync(last, at('link.json'));
    await writeTrustList(last, { ...nothing, from: at('link.json'), keys: [at('next.pem')] }, now);
    expect(JSON.parse(readFileSync(last, 'utf8'))).toMatchObject({
      number: 2,
      keys: [{ name: 'next.pem' }],
      revoked: { releases: [fingerprint('b')] },
    });
  });
});

describe('unusable input', () => {
  test.each<[string, Partial<Record<'from' | 'keys' | 'revokedKeys', string>>, string, string]>([
    ['a key that is missing', { keys: 'nope.pem' }, 'file-unreadable', 'cannot be read: no such file'],
    ['a revoked key that is missing', { revokedKeys: 'nope.pem' }, 'file-unreadable', 'no such file'],
    ['a list before this one that is missing', { from: 'nope.json' }, 'file-unreadable', 'no such file'],
    ['a list that is no JSON', { from: 'next.pem' }, 'trust-list-malformed', 'it is not JSON'],
    ['a list that is another JSON', { from: 'text.json' }, 'trust-list-malformed', 'it is not as it should be'],
    ['a key that is none', { keys: 'text.json' }, 'trust-key-refused', 'cannot be used as a key'],
  ])('is named with its file, and is an error of usage: %s', async (_what, { from, keys, revokedKeys }, code, said) => {
    writeFileSync(at('text.json'), '"a list"');
    const order = {
      ...nothing,
      from: from && at(from),
      keys: keys === undefined ? [] : [at(keys)],
      revokedKeys: revokedKeys === undefined ? [] : [at(revokedKeys)],
    };
    const file = at(from ?? keys ?? revokedKeys ?? '');
    const writing = writeTrustList(at('new.json'), order, now);
    await expect(writing).rejects.toMatchObject({
      code,
      exit: 'usage',
      message: expect.stringMatching(`${file}.*${said}`) as unknown,
      advice: expect.not.stringContaining('[trust] keys') as unknown,
    });
  });
});
