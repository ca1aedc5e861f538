import type { TrustedKey } from '../../firmware/artifact/trust.ts';
import type { TrustList } from '../../firmware/trust/trust-list.ts';

export interface AppliedList {
  readonly list: TrustList;
  /** The list that was in effect before. Undefined if there was none, or if it is unknown. */
  readonly before: TrustList | undefined;
}

interface AppliedListInput extends AppliedList {
  readonly signedBy: string | undefined;
  /** The keys that were trusted before, for their names. */
  readonly known: readonly Named[];
}

type Named = Pick<TrustedKey, 'name' | 'fingerprint'>;

/** Number of names of each kind, so that the text fits into an event. */
const MAX_KEYS = 2;
const MAX_RELEASES = 4;
const MAX_NAME_LENGTH = 16;
const SHORT = 10;

/** Describes the changes of a trust list for the security log. Pure. */
export function describeAppliedList(circumstances: AppliedListInput): string {
  const { list, signedBy } = circumstances;
  const changes = describeChanges(circumstances);
  const signer = signedBy === undefined ? '' : `, signed by ${namesOf(circumstances)(signedBy)}`;
  return `list ${list.number}${signer}: ${changes.length === 0 ? 'changes nothing' : changes.join('; ')}`;
}

/** Describes the revocations, additions and omissions of a list briefly. Pure. */
export function describeChanges(circumstances: Omit<AppliedListInput, 'signedBy'>): readonly string[] {
  const { revokedKeys, unknownKeys, revokedReleases, added, omitted } = diffTrustList(circumstances);
  const keyOf = namesOf(circumstances);
  const ofTrusted = revokedKeys.filter((key) => !unknownKeys.includes(key));
  return [
    describeKeys('', ofTrusted.map(keyOf)),
    describeKeys('unknown ', unknownKeys.map(keyOf)),
    describeReleases(revokedReleases),
    some('adds', added.map(keyOf)),
    some('leaves out', omitted.map(keyOf)),
  ].filter((change) => change !== '');
}

/** Returns the differences between a list and the one before it, as fingerprints and digests. Pure. */
export function diffTrustList({ list, before, known }: Omit<AppliedListInput, 'signedBy'>) {
  const [listed, listedBefore] = [fingerprintsOf(list.keys), fingerprintsOf(before?.keys)];
  const revokedKeys = newIn(list.revoked.keys, before?.revoked.keys);
  return {
    revokedKeys,
    unknownKeys: newIn(revokedKeys, fingerprintsOf(known)),
    revokedReleases: newIn(list.revoked.releases, before?.revoked.releases),
    added: newIn(listed, listedBefore),
    omitted: newIn(listedBefore, [...listed, ...revokedKeys]),
  };
}

function namesOf({ list, before, known }: Omit<AppliedListInput, 'signedBy'>): (fingerprint: string) => string {
  const names = new Map([...known, ...(before?.keys ?? []), ...list.keys].map((key) => [key.fingerprint, key.name]));
  return (fingerprint) => {
    const name = names.get(fingerprint)?.slice(0, MAX_NAME_LENGTH);
    return `${name === undefined ? '' : `${name} `}${short(fingerprint)}`;
  };
}

function describeKeys(kind: '' | 'unknown ', names: readonly string[]): string {
  return some(`revokes the ${kind}${names.length === 1 ? 'key' : 'keys'}`, names);
}

function describeReleases(digests: readonly string[]): string {
  return some(digests.length === 1 ? 'revokes the release' : 'revokes the releases', digests.map(short), MAX_RELEASES);
}

function some(what: string, items: readonly string[], most = MAX_KEYS): string {
  if (items.length === 0) return '';
  const rest = items.length - most;
  return `${what} ${items.slice(0, most).join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
}

function newIn(now: readonly string[], then: readonly string[] = []): readonly string[] {
  const known = new Set(then);
  return now.filter((digest) => !known.has(digest));
}

function fingerprintsOf(keys: readonly Named[] = []): readonly string[] {
  return keys.map(({ fingerprint }) => fingerprint);
}

/** The part of a digest that the status shows of a key. */
function short(digest: string): string {
  return digest.replace('sha256:', '').slice(0, SHORT);
}
