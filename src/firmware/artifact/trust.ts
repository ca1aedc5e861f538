import { basename } from 'node:path';

import { AgentError, describeError, systemErrorCode } from '../../system/errors.ts';
import { parsePublicKey, PublicKeyError, readPublicKey } from '../../system/public-key.ts';
import type { PublicKey } from '../../system/public-key.ts';
import { FirmwareError } from '../errors.ts';

/** Whose signatures are believed, and whether firmware without one may be installed: `[trust]` of the configuration. */
export interface TrustSettings {
  readonly keys: readonly TrustedKey[];
  readonly allowUnsigned: boolean;
}

export interface TrustedKey extends PublicKey {
  /** Base name of the key's file, as in `signedBy`. */
  readonly name: string;
}

/** Loads public keys in PEM form; `trust-key-unreadable` or `trust-key-refused` (exit 78) names the file and the reason. */
export async function loadTrustedKeys(files: readonly string[]): Promise<readonly TrustedKey[]> {
  const keys: TrustedKey[] = [];
  for (const file of files) keys.push({ name: basename(file), ...(await loadKey(file)) });
  return keys;
}

/** `shownAs` is how the key is called in errors. */
export function parseTrustedKey(name: string, pem: string, shownAs = name): TrustedKey {
  try {
    return { name, ...parsePublicKey(pem) };
  } catch (error) {
    throw refused(shownAs, error);
  }
}

async function loadKey(file: string): Promise<PublicKey> {
  try {
    return await readPublicKey(file);
  } catch (error) {
    if (error instanceof AgentError) throw error;
    if (error instanceof PublicKeyError) throw refused(file, error);
    const why = systemErrorCode(error) ?? describeError(error);
    throw new FirmwareError('trust-key-unreadable', `trusted key ${file} cannot be read: ${why}`, { cause: error });
  }
}

function refused(shownAs: string, cause: unknown): AgentError {
  return new FirmwareError('trust-key-refused', `trusted key ${shownAs} is refused: ${describeError(cause)}`, {
    cause,
  });
}
