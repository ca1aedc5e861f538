import { basename } from 'node:path';

import { AgentError, describeError, systemErrorCode } from '../../system/errors.ts';
import { PublicKeyError, readPublicKey } from '../../system/files/public-key.ts';
import type { PublicKey } from '../../system/files/public-key.ts';
import { FirmwareError } from '../errors.ts';
import { validityOf } from '../trust/key-validity.ts';
import type { KeyLifetime, KeyValidity, KnownTime } from '../trust/key-validity.ts';

/** The trusted keys, and whether firmware without a signature may be installed: `[trust]` of the configuration. */
export interface TrustSettings {
  readonly keys: readonly TrustedKey[];
  readonly allowUnsigned: boolean;
  /** Revoked keys by their fingerprint, and revoked releases by the digest of the artifact's manifest. */
  readonly revoked?: { readonly keys: ReadonlySet<string>; readonly releases: ReadonlySet<string> } | undefined;
  readonly time?: KnownTime | undefined;
  /** The trust list is damaged, so the revocations are unknown: only a new list may be installed. */
  readonly damage?: AgentError | undefined;
  /** Keeps a trust list. If omitted, trust lists are not accepted. */
  readonly takeList?: ((list: Uint8Array, artifact: string, signedBy: string | undefined) => Promise<void>) | undefined;
  /**
   * The digest of the artifact whose list is in effect. Its signature was valid when it arrived, and stays so even if
   * the list revoked its key.
   */
  readonly inEffect?: string | undefined;
}

export interface TrustedKey extends PublicKey, KeyLifetime {
  /** The name that people see. */
  readonly name: string;
}

/** A file with a public key, as `[trust]` names it. */
export interface KeyFile extends KeyLifetime {
  readonly file: string;
  /** If omitted, the base name of the file. */
  readonly name?: string | undefined;
}

/**
 * Loads public keys in PEM form. Throws `trust-key-unreadable` or `trust-key-refused` (exit 78) with the file and the
 * reason.
 */
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
