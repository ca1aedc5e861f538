import { AgentError } from '../../system/errors.ts';
import type { TrustedKey, TrustSettings } from '../artifact/trust.ts';
import type { KnownTime } from './key-validity.ts';
import type { StoredTrustList, TrustStore } from './trust-store.ts';

export interface KeyringSources {
  /** The keys of the configuration. */
  readonly configured: () => Promise<readonly TrustedKey[]>;
  readonly store: TrustStore;
  /** Called only if a key has a beginning or an end. */
  readonly knownTime: () => Promise<KnownTime>;
}

/** The keys of the configuration and of the last trust list, and the revocations. */
export interface Keyring extends Omit<TrustSettings, 'allowUnsigned' | 'takeList'> {
  readonly time: KnownTime;
  readonly list: StoredTrustList | undefined;
}

const nothingKnown: KnownTime = { atLeastMs: undefined, nowMs: undefined };

/**
 * Loads the keys again for each use, since files may be replaced. For a key in both, the trust list takes precedence
 * over the configuration.
 */
export async function loadKeyring({ configured: load, store, knownTime }: KeyringSources): Promise<Keyring> {
  const configured = await load();
  const { list, damage } = await readList(store);
  const listed = new Set(list?.keys.map(({ fingerprint }) => fingerprint));
  const keys = [...configured.filter(({ fingerprint }) => !listed.has(fingerprint)), ...(list?.keys ?? [])];
  const revoked = { keys: new Set(list?.revoked.keys), releases: new Set(list?.revoked.releases) };
  const isTimed = keys.some(({ notBeforeMs, notAfterMs }) => notBeforeMs !== undefined || notAfterMs !== undefined);
  const time = isTimed ? later(await knownTime(), list?.issuedMs) : nothingKnown;
  return { keys, revoked, time, list, damage, inEffect: list?.artifact };
}

/** Returns the known time, at least the one that the signer of the trust list stated. */
function later({ atLeastMs, nowMs }: KnownTime, issuedMs: number | undefined): KnownTime {
  const known = [atLeastMs, issuedMs].filter((ms) => ms !== undefined);
  return { nowMs, atLeastMs: known.length === 0 ? undefined : Math.max(...known) };
}

async function readList(store: TrustStore): Promise<Pick<Keyring, 'list' | 'damage'>> {
  try {
    return { list: await store.read(), damage: undefined };
  } catch (error) {
    if (error instanceof AgentError && error.code === 'trust-list-damaged')
      return { list: await store.lastKnown(), damage: error };
    throw error;
  }
}
