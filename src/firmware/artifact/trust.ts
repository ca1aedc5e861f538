import { createPublicKey } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { basename } from 'node:path';

import { AgentError, describeError, systemErrorCode } from '../../system/errors.ts';
import { readOutsideFile } from '../../system/outside-file.ts';
import { FirmwareError } from '../errors.ts';

/** Whose signatures are believed, and whether firmware without one may be installed: `[trust]` of the configuration. */
export interface TrustSettings {
  readonly keys: readonly TrustedKey[];
  readonly allowUnsigned: boolean;
}

export interface TrustedKey {
  /** Base name of the key's file, as in `signedBy`. */
  readonly name: string;
  readonly algorithm: 'ecdsa-p256' | 'rsa' | 'ed25519';
  readonly key: KeyObject;
}

const KEY_FILE_LIMIT_BYTES = 16 * 1024;
const RSA_MINIMUM_BITS = 3072;

/** Loads public keys in PEM form; `trust-key-unreadable` or `trust-key-refused` (exit 78) names the file and the reason. */
export async function loadTrustedKeys(files: readonly string[]): Promise<readonly TrustedKey[]> {
  const keys: TrustedKey[] = [];
  for (const file of files) keys.push(parseTrustedKey(basename(file), await readKeyFile(file), file));
  return keys;
}

/** `shownAs` is how the key is called in errors. */
export function parseTrustedKey(name: string, pem: string, shownAs = name): TrustedKey {
  const labels = [...pem.matchAll(/-----BEGIN ([A-Z0-9 ]+)-----/g)].map((match) => match[1] ?? '');
  const [label] = labels;
  if (label?.includes('PRIVATE KEY') === true)
    throw refused(shownAs, 'it is a private key, which belongs on no gateway');
  if (label !== 'PUBLIC KEY') throw refused(shownAs, 'it is not a public key in PEM form (BEGIN PUBLIC KEY)');
  if (labels.length > 1) throw refused(shownAs, 'it holds more than one key; write one per file');
  const key = parsePublicKey(pem, shownAs);
  return { name, algorithm: algorithmOf(key, shownAs), key };
}

function parsePublicKey(pem: string, shownAs: string): KeyObject {
  try {
    return createPublicKey({ key: pem, format: 'pem', type: 'spki' });
  } catch (error) {
    throw refused(shownAs, `it cannot be decoded (${describeError(error)})`);
  }
}

function algorithmOf(key: KeyObject, shownAs: string): TrustedKey['algorithm'] {
  const { namedCurve, modulusLength = 0 } = key.asymmetricKeyDetails ?? {};
  const type = key.asymmetricKeyType;
  if (type === 'ed25519') return type;
  if (type === 'ec') {
    if (namedCurve === 'prime256v1') return 'ecdsa-p256';
    throw refused(shownAs, `its curve is ${namedCurve ?? 'unnamed'}, not P-256`);
  }
  if (type !== 'rsa') throw refused(shownAs, `keys of type ${type ?? 'unknown'} are not supported`);
  if (modulusLength >= RSA_MINIMUM_BITS) return 'rsa';
  throw refused(shownAs, `it is an RSA key of ${modulusLength} bits; at least ${RSA_MINIMUM_BITS} are needed`);
}

async function readKeyFile(file: string): Promise<string> {
  try {
    const bytes = await readOutsideFile(file, { maxBytes: KEY_FILE_LIMIT_BYTES + 1, longer: 'cut' });
    if (bytes.byteLength > KEY_FILE_LIMIT_BYTES) throw refused(file, 'it is larger than a key can be');
    return bytes.toString('latin1');
  } catch (error) {
    if (error instanceof AgentError) throw error;
    const why = systemErrorCode(error) ?? describeError(error);
    throw new FirmwareError('trust-key-unreadable', `trusted key ${file} cannot be read: ${why}`, { cause: error });
  }
}

function refused(shownAs: string, why: string): AgentError {
  return new FirmwareError('trust-key-refused', `trusted key ${shownAs} is refused: ${why}`);
}
