import * as z from 'zod';

import { describeError } from '../../system/errors.ts';
import { parsePublicKey } from '../../system/files/public-key.ts';
import { parsedJsonBytes } from '../../system/json-value.ts';
import { parseUtcTime } from '../../system/time/utc-time.ts';
import type { TrustedKey } from '../artifact/trust.ts';
import { VerificationError } from '../errors.ts';

/** The type of the payload that carries a list. */
export const TRUST_LIST_TYPE = 'thing-trust';
export const MAX_LIST_BYTES = 256 * 1024;
/** A list with everything that was revoked before, which is at most 2,256 digests of 75 bytes more. */
const MAX_KEPT_BYTES = 2 * MAX_LIST_BYTES;
const MAX_KEYS = 32;
const MAX_REVOKED_KEYS = 256;
const MAX_REVOKED_RELEASES = 2_000;
/** A number may also be a date such as 20261122, or seconds since 1970, with room for larger ones to follow. */
const MAX_NUMBER = 1_000_000_000_000;

/** The keys that are trusted in addition to those in the configuration, and the revocations. */
export interface TrustList {
  /** A list replaces only one with a lower number. */
  readonly number: number;
  readonly issuedMs: number;
  readonly keys: readonly TrustedKey[];
  /** Fingerprints of keys, and digests of releases (of the artifact's manifest), each `sha256:` and hex. */
  readonly revoked: { readonly keys: readonly string[]; readonly releases: readonly string[] };
}

const time = z.string().refine((text) => parseUtcTime(text) !== undefined, 'not a UTC time');
const digest = z.string().regex(/^sha256:[0-9a-f]{64}$/, 'not sha256: and 64 hexadecimal digits');

const listedKey = z.strictObject({
  name: z
    .string()
    .min(1)
    .max(64)
    .regex(/^[\x20-\x7e]+$/, 'not printable'),
  pem: z.string().max(8192),
  not_before: time.optional(),
  not_after: time.optional(),
});

/** The file that a release machine writes. */
export const trustListFile = z.strictObject({
  format: z.literal('thing-trust'),
  version: z.literal(1),
  number: z.int().min(1).max(MAX_NUMBER),
  issued: time,
  keys: z.array(listedKey).max(MAX_KEYS),
  revoked: z.strictObject({
    keys: z.array(digest).max(MAX_REVOKED_KEYS),
    releases: z.array(digest).max(MAX_REVOKED_RELEASES),
  }),
});

/** The file that a gateway keeps. The agent in the other slot may be newer, and have added members. */
const keptListFile = z.object({
  ...trustListFile.shape,
  /** The digest of the manifest of the artifact that brought the list. */
  artifact: digest.optional(),
  /** The fingerprint of the key that signed it. */
  signed_by: digest.optional(),
  /** The highest number of the lists that each key signed, since a list with a lower number than the last may follow. */
  numbers: z.record(digest, z.int()).optional(),
});

export type TrustListFile = z.infer<typeof trustListFile>;
export type KeptListFile = z.infer<typeof keptListFile>;

/** Throws VerificationError `trust-list-malformed`. */
export function parseTrustListFile(bytes: Uint8Array): TrustListFile {
  return parseAs(trustListFile, bytes, MAX_LIST_BYTES);
}

export function parseKeptListFile(bytes: Uint8Array): KeptListFile {
  return parseAs(keptListFile, bytes, MAX_KEPT_BYTES);
}

function parseAs<T>(schema: z.ZodType<T>, bytes: Uint8Array, maxBytes: number): T {
  if (bytes.byteLength > maxBytes) throw malformed(`it is longer than ${maxBytes} bytes`);
  const value = parsedJsonBytes(bytes);
  if (value === undefined) throw malformed('it is not JSON');
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const where = issue === undefined || issue.path.length === 0 ? 'it' : issue.path.join('.');
  throw malformed(`${where} is not as it should be (${issue?.message ?? 'unknown reason'})`);
}

export function fromFile(file: TrustListFile): TrustList {
  const keys = file.keys.map((key) => keyOf(key));
  if (new Set(keys.map(({ fingerprint }) => fingerprint)).size < keys.length) throw malformed('a key is listed twice');
  return { number: file.number, issuedMs: parseUtcTime(file.issued) ?? 0, keys, revoked: file.revoked };
}

function keyOf({ name, pem, not_before: notBefore, not_after: notAfter }: z.infer<typeof listedKey>): TrustedKey {
  try {
    const life = { notBeforeMs: parseUtcTime(notBefore), notAfterMs: parseUtcTime(notAfter) };
    return { name, ...parsePublicKey(pem), ...life };
  } catch (error) {
    throw malformed(`key ${JSON.stringify(name)} is refused: ${describeError(error)}`);
  }
}

/**
 * Guarantee `revocation`: joins the revocations of both lists, since revocations are permanent, whatever a later list
 * contains. Throws `trust-list-malformed` if that exceeds the bound.
 */
export function joinRevoked(before: TrustList['revoked'] | undefined, { revoked }: TrustList): TrustList['revoked'] {
  const keys = [...new Set([...(before?.keys ?? []), ...revoked.keys])];
  const releases = [...new Set([...(before?.releases ?? []), ...revoked.releases])];
  if (keys.length <= MAX_REVOKED_KEYS && releases.length <= MAX_REVOKED_RELEASES) return { keys, releases };
  throw malformed('together with the earlier revocations, there are more than a gateway keeps');
}

function malformed(why: string): VerificationError {
  return new VerificationError('trust-list-malformed', `trust list: ${why}`);
}
