import { hash } from 'node:crypto';

import { VerificationError } from '../errors.ts';
import { requireVersion3 } from './header.ts';
import { parseManifest } from './manifest.ts';
import type { Manifest } from './manifest.ts';
import { quoted } from './refusal.ts';
import { findSigner } from './signature.ts';
import type { TarReader } from './tar/tar-reader.ts';
import { keyStateOf } from './trust.ts';
import type { TrustedKey, TrustSettings } from './trust.ts';

const VERSION_LIMIT_BYTES = 4 * 1024;
const MANIFEST_LIMIT_BYTES = 128 * 1024;
const SIGNATURE_LIMIT_BYTES = 8 * 1024;
const HEADER_LIMIT_BYTES = 2 * 1024 * 1024;

/** The signer of an artifact. `unknown-signer`: there is a signature, but not of a trusted key. */
export type Provenance =
  | { readonly kind: 'signed'; readonly by: string }
  | { readonly kind: 'unknown-signer' }
  | { readonly kind: 'unsigned' };

/** The part of an artifact before its payloads, verified in this order: signature, version, header. */
export interface Envelope {
  readonly provenance: Provenance;
  readonly manifest: Manifest;
  /** The artifact's own digest: `sha256:` and the hex digest of its manifest. */
  readonly digest: string;
  /** The member `header.tar` as it is in the artifact, perhaps compressed. */
  readonly header: Uint8Array;
}

/**
 * Reads the envelope in the order of Mender Artifact format version 3, "Ordering". The header is parsed only after the
 * signature and the checksums were verified.
 */
export async function readEnvelope(tar: TarReader, trust: TrustSettings): Promise<Envelope> {
  await expect(tar, 'version');
  const version = await tar.read(VERSION_LIMIT_BYTES);
  requireVersion3(version);
  await expect(tar, 'manifest');
  const manifestBytes = await tar.read(MANIFEST_LIMIT_BYTES);

  let member = await tar.next();
  let signature: Uint8Array | undefined;
  if (member?.name === 'manifest.sig') {
    signature = await tar.read(SIGNATURE_LIMIT_BYTES);
    member = await tar.next();
  }
  const provenance = provenanceOf(manifestBytes, signature, trust);
  const manifest = parseManifest(manifestBytes);
  requireDigest('version', version, manifest.versionDigest);

  if (member?.name !== manifest.header.memberName) throw unexpected(member?.name, manifest.header.memberName);
  const header = await tar.read(HEADER_LIMIT_BYTES);
  requireDigest(member.name, header, manifest.header.digest);
  return { provenance, manifest, digest: digestOf(manifestBytes), header };
}

/** Returns the refusal of a member found instead of the expected one. */
export function unexpected(name: string | undefined, wanted: string): VerificationError {
  if (name?.includes('-augment') === true) {
    return new VerificationError(
      'artifact-augmented',
      `artifact: it has the unsigned part ${quoted(name)}, which is not supported`,
      'build the artifact without the --augment options',
    );
  }
  const found = name === undefined ? 'the end' : quoted(name);
  return new VerificationError('artifact-malformed', `artifact: ${found} where ${wanted} should be`);
}

async function expect(tar: TarReader, name: string): Promise<void> {
  const member = await tar.next();
  if (member?.name !== name) throw unexpected(member?.name, name);
}

/**
 * Guarantee `vouched`: finds the trusted signer of the artifact, or refuses it. With `allowUnsigned`, a signature by an
 * unknown key counts as no signature: an attacker who could forge an artifact could also leave out the signature, so a
 * refusal would protect no one. `unknown-signer` is distinguished only for the report.
 */
function provenanceOf(manifest: Uint8Array, signature: Uint8Array | undefined, trust: TrustSettings): Provenance {
  const signer = signature === undefined ? undefined : findSigner(manifest, signature, trust.keys);
  const isInEffect = trust.inEffect === digestOf(manifest);
  const refusal = signer === undefined || isInEffect ? undefined : refusalOf(signer, trust);
  if (signer !== undefined && refusal === undefined) return { kind: 'signed', by: signer.fingerprint };
  if (trust.allowUnsigned) return { kind: signature === undefined ? 'unsigned' : 'unknown-signer' };
  if (refusal !== undefined) throw refusal;
  if (trust.keys.length === 0) {
    throw new VerificationError(
      'trust-no-keys',
      'artifact: no trusted key is configured, so nothing can be verified',
      'name the public key of the artifact in [trust] keys',
    );
  }
  if (signature === undefined) {
    throw new VerificationError('artifact-unsigned', 'artifact: it is not signed', 'sign it with a trusted key');
  }
  const believed = trust.keys.filter((key) => refusalOf(key, trust) === undefined).map(shortOf);
  const keys = believed.length === 0 ? 'none is left' : believed.join(', ');
  throw new VerificationError(
    'signature-invalid',
    `artifact: no trusted key signed it (trusted: ${keys}), or it was changed`,
    'sign it with a trusted key, or add its public key to [trust] keys',
  );
}

/** Returns why a key is no longer trusted, or not yet, or undefined if it is trusted. */
function refusalOf(signer: TrustedKey, trust: TrustSettings): VerificationError | undefined {
  const refuse = (code: 'key-revoked' | 'key-expired' | 'key-not-yet-valid', why: string): VerificationError =>
    new VerificationError(code, `artifact: the key that signed it ${why} (${signer.fingerprint})`);
  switch (keyStateOf(signer, trust)) {
    case 'revoked':
      return refuse('key-revoked', 'was revoked');
    case 'expired':
      return refuse('key-expired', `ended at ${describeTime(signer.notAfterMs)}`);
    case 'not-yet':
      return refuse('key-not-yet-valid', `begins at ${describeTime(signer.notBeforeMs)}`);
    case 'valid':
    case 'unknown':
      return undefined;
  }
}

/** The beginning of the fingerprint, enough to identify the key, as `agent status` shows it. */
function shortOf({ fingerprint }: TrustedKey): string {
  return fingerprint.replace('sha256:', '').slice(0, 10);
}

function describeTime(ms = 0): string {
  return new Date(ms).toISOString();
}

function requireDigest(name: string, bytes: Uint8Array, promised: string): void {
  if (hash('sha256', bytes) === promised) return;
  throw new VerificationError('checksum-mismatch', `artifact: ${name} is not what the manifest promises`);
}

function digestOf(manifest: Uint8Array): string {
  return `sha256:${hash('sha256', manifest)}`;
}
