import { generateKeyPairSync } from 'node:crypto';
import type { KeyObject } from 'node:crypto';

import type { TrustedKey } from '../../../../src/firmware/artifact/trust.ts';
import { parsePublicKey } from '../../../../src/system/files/public-key.ts';

export interface KeyPair {
  readonly privateKey: KeyObject;
  /** In the old form of its kind: mender-artifact 3.9 reads no PKCS #8. */
  readonly privatePem: string;
  readonly publicPem: string;
  readonly trusted: TrustedKey;
}

const privateForms = { 'ecdsa-p256': 'sec1', rsa: 'pkcs1', ed25519: 'pkcs8' } as const;

export function makeKeyPair(algorithm: TrustedKey['algorithm'], name = `${algorithm}.pem`): KeyPair {
  const { privateKey, publicKey } = generate(algorithm);
  const publicPem = pemOf(publicKey, 'spki');
  return {
    privateKey,
    privatePem: pemOf(privateKey, privateForms[algorithm]),
    publicPem,
    trusted: { name, ...parsePublicKey(publicPem) },
  };
}

export function pemOf(key: KeyObject, type: 'spki' | 'sec1' | 'pkcs1' | 'pkcs8'): string {
  return key.export({ type, format: 'pem' }).toString();
}

function generate(algorithm: TrustedKey['algorithm']): {
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
} {
  switch (algorithm) {
    case 'ecdsa-p256':
      return generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
    case 'rsa':
      return generateKeyPairSync('rsa', { modulusLength: 3072 });
    case 'ed25519':
      return generateKeyPairSync('ed25519');
  }
}
