import { basename } from 'node:path';

import { AgentError, describeError, systemErrorCode } from '../../system/errors.ts';
import { PublicKeyError, readPublicKey } from '../../system/files/public-key.ts';
import type { PublicKey } from '../../system/files/public-key.ts';
import { FirmwareError } from '../errors.ts';
import { validityOf } from '../trust/key-validity.ts';
import type { KeyLife, KeyValidity, KnownTime } from '../trust/key-validity.ts';

/** Whose signatures are believed, and whether firmware without one may be installed: `[trust]` of the configuration. */
export interface TrustSettings {
  readonly keys: readonly TrustedKey[];
  readonly allowUnsigned: boolean;
  /** By fingerprint, and by the digest of the artifact's manifest. */
  readonly revoked?: { readonly keys: ReadonlySet<string>; readonly releases: ReadonlySet<string> } | undefined;
  readonly time?: KnownTime | undefined;
  /** What was revoked is not known any more: only a new list may come. */
  readonly damage?: AgentError | undefined;
  /** Keeps a list of keys and revocations; undefined: none are taken. */
  readonly takeList?: ((list: Uint8Array, artifact: string, signedBy: string | undefined) => Promise<void>) | undefined;
  /** The artifact, by its digest, whose list is in effect: it was believed when it came, and may have revoked its own key. */
  readonly inEffect?: string | undefined;
}

export interface TrustedKey extends PublicKey, KeyLife {
  /** For people. */
  readonly name: string;
}

/** A file with a public key, as `[trust]` names it. */
export interface KeyFile extends KeyLife {
  readonly file: string;
  /** Undefined: the base name of the file. */
  readonly name?: string | undefined;
}

/** Loads public keys in PEM form; `trust-key-unreadable` or `trust-key-refused` (exit 78) names the file and the reason. */
export async function loadTrustedKeys(files: readonly KeyFile[]): Promise<readonly TrustedKey[]> {
  const keys: TrustedKey[] = [];
  for (const { file, name = basename(file), notBeforeMs, notAfterMs } of files) {
    keys.push({ name, notBeforeMs, notAfterMs, ...(await loadKey(file)) });
  }
  return keys;
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

export type KeyState = KeyValidity | 'revoked';

export function keyStateOf(key: TrustedKey, { revoked, time }: Pick<TrustSettings, 'revoked' | 'time'>): KeyState {
  if (revoked?.keys.has(key.fingerprint) === true) return 'revoked';
  return validityOf(key, time ?? { atLeastMs: undefined, nowMs: undefined });
}
