import { createHash, createPublicKey } from 'node:crypto';
import type { KeyObject } from 'node:crypto';

import { describeError } from '../errors.ts';
import { readProtectedFile } from './protected-file.ts';

/** A key that verifies signatures. */
export interface PublicKey {
  readonly algorithm: 'ecdsa-p256' | 'rsa' | 'ed25519';
  readonly key: KeyObject;
  /**
   * `sha256:` and the hex digest of its canonical SubjectPublicKeyInfo in DER (RFC 5280; RFC 5480: a named curve and an
   * uncompressed point), which is the same for every file with this key.
   */
  readonly fingerprint: string;
}

/** The reason why a text is not a usable key, worded as the end of a sentence. */
export class PublicKeyError extends Error {
  override readonly name = 'PublicKeyError';
}

const RSA_MINIMUM_BITS = 3072;
/** MCUboot's imgtool makes RSA-2048 keys by default, and most of its bootloaders are built for them. */
export const MCUBOOT_RSA_MINIMUM_BITS = 2048;
/** No key file is longer. */
export const MAX_KEY_BYTES = 16 * 1024;

/** Reads a key in PEM form, one in the file. Throws PublicKeyError, an error of the system, or `writable-by-others`. */
export async function readPublicKey(file: string, rsaMinimumBits = RSA_MINIMUM_BITS): Promise<PublicKey> {
  const bytes = await readProtectedFile(file, { maxBytes: MAX_KEY_BYTES + 1, longer: 'cut' });
  if (bytes.byteLength > MAX_KEY_BYTES) throw new PublicKeyError('it is larger than a key can be');
  return parsePublicKey(new TextDecoder().decode(bytes), rsaMinimumBits);
}

/** Throws PublicKeyError. */
export function parsePublicKey(pem: string, rsaMinimumBits = RSA_MINIMUM_BITS): PublicKey {
  const labels = [...pem.matchAll(/-----BEGIN ([A-Z0-9 ]{1,64})-----/g)].map((match) => match[1] ?? '');
  const [label] = labels;
  if (labels.some((found) => found.includes('PRIVATE KEY')))
    throw new PublicKeyError('it is a private key, which belongs on no gateway');
  if (label !== 'PUBLIC KEY') throw new PublicKeyError('it is not a public key in PEM form (BEGIN PUBLIC KEY)');
  if (labels.length > 1) throw new PublicKeyError('it holds more than one key; write one per file');
  const decoded = decode(pem);
  const algorithm = algorithmOf(decoded, rsaMinimumBits);
  // OpenSSL exports an EC key in the encoding of its file; a JSON Web Key has only the coordinates.
  const key = createPublicKey({ key: decoded.export({ format: 'jwk' }), format: 'jwk' });
  return { algorithm, key, fingerprint: fingerprintOf(key) };
}

function decode(pem: string): KeyObject {
  try {
    return createPublicKey({ key: pem, format: 'pem', type: 'spki' });
  } catch (error) {
    throw new PublicKeyError(`it cannot be decoded (${describeError(error)})`, { cause: error });
  }
}

function algorithmOf(key: KeyObject, rsaMinimumBits: number): PublicKey['algorithm'] {
  const { namedCurve, modulusLength = 0 } = key.asymmetricKeyDetails ?? {};
  const type = key.asymmetricKeyType;
  if (type === 'ed25519') return type;
  if (type === 'ec') {
    if (namedCurve === 'prime256v1') return 'ecdsa-p256';
    throw new PublicKeyError(`its curve is ${namedCurve ?? 'unnamed'}, not P-256`);
  }
  if (type !== 'rsa') throw new PublicKeyError(`keys of type ${type ?? 'unknown'} are not supported`);
  if (modulusLength >= rsaMinimumBits) return 'rsa';
  throw new PublicKeyError(`it is an RSA key of ${modulusLength} bits; at least ${rsaMinimumBits} are needed`);
}

function fingerprintOf(key: KeyObject): string {
  return `sha256:${createHash('sha256')
    .update(key.export({ format: 'der', type: 'spki' }))
    .digest('hex')}`;
}
