import { generateKeyPairSync } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { loadTrustedKeys } from '../../../../src/firmware/artifact/trust.ts';
import { AgentError } from '../../../../src/system/errors.ts';
import { makeKeyPair, pemOf } from './keys.ts';

const p256 = makeKeyPair('ecdsa-p256');

let folder = '';
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trust-'));
});
afterAll(async () => {
  await rm(folder, { recursive: true });
});

describe('a trusted key', () => {
  test.each(['ecdsa-p256', 'rsa', 'ed25519'] as const)('of type %s is taken', async (algorithm) => {
    const { publicPem } = makeKeyPair(algorithm);
    expect(await load(publicPem)).toMatchObject([{ name: 'release.pem', algorithm }]);
  });

  test.each([
    ['RSA of 2048 bits', () => generateKeyPairSync('rsa', { modulusLength: 2048 }).publicKey, '2048 bits'],
    ['RSA-PSS', () => generateKeyPairSync('rsa-pss', { modulusLength: 3072 }).publicKey, 'rsa-pss'],
    ['ECDSA P-384', () => generateKeyPairSync('ec', { namedCurve: 'secp384r1' }).publicKey, 'secp384r1'],
    ['ECDSA secp256k1', () => generateKeyPairSync('ec', { namedCurve: 'secp256k1' }).publicKey, 'secp256k1'],
    ['Ed448', () => generateKeyPairSync('ed448').publicKey, 'ed448'],
  ])('of type %s is refused', async (_, make, why) => {
    const { code, exit, message } = await refusalOf(pemOf(make(), 'spki'));
    expect({ code, exit }).toEqual({ code: 'trust-key-refused', exit: 'configuration' });
    expect(message).toContain(why);
  });

  test.each([
    ['a private key', p256.privatePem, 'private key'],
    ['two keys', p256.publicPem + p256.publicPem, 'more than one key'],
    ['a certificate', p256.publicPem.replaceAll('PUBLIC KEY', 'CERTIFICATE'), 'not a public key in PEM form'],
    ['no PEM', 'hello', 'not a public key in PEM form'],
    ['nothing', '', 'not a public key in PEM form'],
    ['PEM that is garbled', p256.publicPem.replace('MFkw', 'AAAA'), 'cannot be decoded'],
  ])('that is %s is refused', async (_, pem, why) => {
    const { code, exit, message } = await refusalOf(pem);
    expect({ code, exit }).toEqual({ code: 'trust-key-refused', exit: 'configuration' });
    expect(message).toContain(why);
  });

  test('that is private does not show up in its refusal', async () => {
    expect((await refusalOf(p256.privatePem)).message).not.toContain(p256.privatePem.slice(30, 60));
  });
});

describe('the files of trusted keys', () => {
  test('are loaded in their order and named by their base names', async () => {
    const files = [join(folder, 'b.pem'), join(folder, 'a.pem')];
    for (const file of files) await writeFile(file, p256.publicPem);
    expect((await loadTrustedKeys(files.map((file) => ({ file })))).map(({ name }) => name)).toEqual([
      'b.pem',
      'a.pem',
    ]);
  });

  test('are named with their path where they cannot be read', async () => {
    const file = join(folder, 'missing.pem');
    await expect(loadTrustedKeys([{ file }])).rejects.toMatchObject({
      code: 'trust-key-unreadable',
      exit: 'configuration',
      message: `trusted key ${file} cannot be read: ENOENT`,
    });
    await expect(loadTrustedKeys([{ file: folder }])).rejects.toMatchObject({ code: 'trust-key-unreadable' });
  });

  test('are named with their path where they are refused', async () => {
    const file = join(folder, 'large.pem');
    await writeFile(file, 'x'.repeat(20_000));
    await expect(loadTrustedKeys([{ file }])).rejects.toMatchObject({
      code: 'trust-key-refused',
      exit: 'configuration',
      message: `trusted key ${file} is refused: it is larger than a key can be`,
    });
  });
});

async function load(pem: string): ReturnType<typeof loadTrustedKeys> {
  const file = join(folder, 'release.pem');
  await writeFile(file, pem);
  return loadTrustedKeys([{ file }]);
}

async function refusalOf(pem: string): Promise<AgentError> {
  try {
    await load(pem);
  } catch (error) {
    if (error instanceof AgentError) return error;
    throw error;
  }
  throw new Error('the key was taken');
}
