import { VerificationError } from '../errors.ts';
import { TRUST_LIST_TYPE } from '../trust/trust-list.ts';
import type { Envelope } from './envelope.ts';
import type { ArtifactDescription } from './header.ts';
import type { Manifest } from './manifest.ts';
import type { DeclaredFile } from './targets.ts';
import type { TrustSettings } from './trust.ts';

/**
 * Guarantee `revocation`: refuses a revoked release, and every release if the revocations are unknown. Trust lists are
 * not refused for that.
 */
export function requireKnownRevocations({ digest }: Envelope, name: string, { revoked, damage }: TrustSettings): void {
  if (damage !== undefined) throw damage;
  if (revoked?.releases.has(digest) !== true) return;
  throw new VerificationError(
    'release-revoked',
    `artifact: the release ${JSON.stringify(name)} (${digest}) was revoked`,
  );
}

/**
 * Requires that an artifact with a list holds nothing else, and is signed by a trusted key even if `allowUnsigned` is
 * set.
 */
export function requireList({ payloads }: ArtifactDescription, { provenance }: Envelope, trust: TrustSettings): void {
  if (provenance.kind !== 'signed') {
    const why = 'artifact: a trust list must be signed with a trusted key';
    throw new VerificationError('artifact-unsigned', why, 'sign it with a trusted key');
  }
  const isOrdered = payloads.some(({ targets }) => targets !== undefined);
  if (payloads.length !== 1 || isOrdered || trust.takeList === undefined) {
    const why = `artifact: a payload of type ${TRUST_LIST_TYPE} must be the only one, and its meta-data names no targets`;
    throw new VerificationError('trust-list-malformed', why);
  }
}

/** The one file of an artifact with a list. */
export function declaredTrustList({ payloads }: Manifest): readonly (readonly DeclaredFile[])[] {
  const [files, ...more] = payloads.values();
  const [only, ...others] = files ?? [];
  if (only === undefined || more.length > 0 || others.length > 0) {
    throw new VerificationError('trust-list-malformed', `artifact: a payload of type ${TRUST_LIST_TYPE} has one file`);
  }
  const [fileName, hex] = only;
  const digest = `sha256:${hex}`;
  return [[{ header: { fileName, target: 'default', digest }, digest, fileDigest: digest }]];
}
