import { generateKeyPairSync } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, expect, test } from 'vitest';

import { loadMcubootKey } from '../../../src/mcu/mcuboot-key.ts';
import { folderUntilTestEnds } from '../../until-test-ends.ts';

let folder = '';
beforeEach(() => {
  folder = folderUntilTestEnds();
});

const p256 = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
const pem = (key: KeyObject): string =>
  String(key.export({ format: 'pem', type: key.type === 'public' ? 'spki' : 'pkcs8' }));
const rsa = (modulusLength: number): string => pem(generateKeyPairSync('rsa', { modulusLength }).publicKey);

async function load(text: string): Promise<string | undefined> {
  const file = join(folder, 'key.pem');
  await writeFile(file, text);
  return (await loadMcubootKey(file)).asymmetricKeyType;
}

test.each([
  ['a private key', () => pem(p256.privateKey), 'private key'],
  ['a private key behind a public one', () => pem(p256.publicKey) + pem(p256.privateKey), 'private key'],
  ['a certificate', () => pem(p256.publicKey).replaceAll('PUBLIC KEY', 'CERTIFICATE'), 'not a public key'],
  ['an RSA key of 1024 bits', () => rsa(1024), 'at least 2048'],
  ['two keys', () => pem(p256.publicKey).repeat(2), 'more than one key'],
  ['a key on another curve', () => pem(generateKeyPairSync('ec', { namedCurve: 'secp384r1' }).publicKey), 'P-256'],
])('%s is refused as a key for MCUboot', async (_, text, why) => {
  await expect(load(text())).rejects.toMatchObject({
    code: 'mcuboot-key-unreadable',
    message: expect.stringContaining(why) as string,
  });
});

test('the keys are taken that imgtool makes', async () => {
  expect(await load(rsa(2048))).toBe('rsa');
  expect(await load(pem(p256.publicKey))).toBe('ec');
  expect(await load(pem(generateKeyPairSync('ed25519').publicKey))).toBe('ed25519');
});

test('rejects a key that other users may write, with the command that fixes it', async () => {
  const file = join(folder, 'key.pem');
  await writeFile(file, pem(p256.publicKey));
  await chmod(file, 0o666);
  await expect(loadMcubootKey(file)).rejects.toMatchObject({
    code: 'writable-by-others',
    message: expect.stringContaining(`chmod go-w ${file}`) as string,
  });
});
