import { realpath } from 'node:fs/promises';
import { basename } from 'node:path';

import { AgentError, describeError, mapError, systemErrorCode, undefinedIfMissing } from '../../system/errors.ts';
import { replaceFileDurably } from '../../system/files/durable-file.ts';
import { openNamedFile } from '../../system/files/opened-file.ts';
import { PublicKeyError, readPublicKey } from '../../system/files/public-key.ts';
import { readUntrustedFile } from '../../system/files/untrusted-file.ts';
import { readEnvelope } from '../artifact/envelope.ts';
import { TarReader } from '../artifact/tar/tar-reader.ts';
import { ByteReader } from '../byte-reader.ts';
import { FirmwareError, VerificationError } from '../errors.ts';
import { fromFile, joinRevoked, MAX_LIST_BYTES, parseTrustListFile, trustListFile } from './trust-list.ts';
import type { TrustListFile } from './trust-list.ts';

/** A release engineer's request for the next trust list. */
export interface ListOrder {
  /** The previous list, which is continued. Omitted for the first one. */
  readonly from: string | undefined;
  /** If omitted, one more than the previous list. */
  readonly number: number | undefined;
  /** Files with public keys that are trusted from now on. */
  readonly keys: readonly string[];
  /** The validity of these keys, as it is written in a list. */
  readonly notBefore: string | undefined;
  readonly notAfter: string | undefined;
  /** Fingerprints, or files with public keys. */
  readonly revokedKeys: readonly string[];
  /** Digests, or artifacts. */
  readonly revokedReleases: readonly string[];
}

const emptyList: TrustListFile = {
  format: 'thing-trust',
  version: 1,
  number: 0,
  issued: '1970-01-01',
  keys: [],
  revoked: { keys: [], releases: [] },
};

/** Writes the next list, which mender-artifact then signs. A revoked key is removed from the trusted ones. */
export async function writeTrustList(path: string, order: ListOrder, nowMs: number): Promise<TrustListFile> {
  await requireAllRevocations(path, order.from);
  const before = order.from === undefined ? emptyList : await readList(order.from);
  const revokedKeys = await Promise.all(order.revokedKeys.map(fingerprintOf));
  const releases = await Promise.all(order.revokedReleases.map(digestOf));
  const brought = await Promise.all(order.keys.map(async (file) => listedKey(file, order)));
  const next = trustListFile.safeParse({
    ...before,
    number: order.number ?? before.number + 1,
    issued: new Date(nowMs).toISOString(),
    keys: await withoutRevoked([...before.keys, ...brought], [...before.revoked.keys, ...revokedKeys]),
    revoked: { keys: revokedKeys, releases },
  });
  if (!next.success) throw unusable(`${next.error.issues[0]?.path.join('.')}: ${next.error.issues[0]?.message}`);
  if (next.data.number <= before.number) throw unusable(`its number must be higher than ${before.number}`);
  const list = { ...next.data, revoked: mutable(joinRevoked(before.revoked, fromFile(next.data))) };
  const text = `${JSON.stringify(list, undefined, 2)}\n`;
  parseTrustListFile(Buffer.from(text)); // refuses what no gateway would read
  await replaceFileDurably(path, text, undefined, 0o644);
  return list;
}

/**
 * Refuses to replace a list without continuing it: what it revokes would be lost here, and known only to the gateways.
 */
async function requireAllRevocations(path: string, from: string | undefined): Promise<void> {
  const existing = await placeOf(path);
  if (existing === undefined || (from !== undefined && (await placeOf(from)) === existing)) return;
  throw new FirmwareError('trust-list-exists', `${path} exists`, {
    advice: `continue it (--from ${path}), or name a file that does not exist`,
  });
}

/** Returns the real path of a file, or undefined if there is none. */
async function placeOf(path: string): Promise<string | undefined> {
  return mapError(undefinedIfMissing(realpath(path)), (error) => unreadable(path, error));
}

async function readList(file: string): Promise<TrustListFile> {
  const reading = readUntrustedFile(file, { maxBytes: MAX_LIST_BYTES + 1, longer: 'cut' });
  const bytes = await mapError(reading, (error) => unreadable(file, error));
  try {
    return parseTrustListFile(bytes);
  } catch (error) {
    if (!(error instanceof VerificationError)) throw error;
    const advice = '--from is a list that agent artifact trust wrote before, or left out for the first one';
    throw new VerificationError('trust-list-malformed', `${file}: ${error.message}`, advice, 'usage');
  }
}

function unreadable(file: string, error: unknown): FirmwareError {
  const why = systemErrorCode(error) === 'ENOENT' ? 'no such file' : describeError(error);
  return new FirmwareError('file-unreadable', `${file} cannot be read: ${why}`, {
    cause: error,
    advice: 'check the path; a fingerprint or a digest is sha256: and 64 hexadecimal digits',
  });
}

function mutable({ keys, releases }: { readonly keys: readonly string[]; readonly releases: readonly string[] }) {
  return { keys: [...keys], releases: [...releases] };
}

/**
 * Removes revoked keys, since one list cannot both trust and revoke a key. Of two entries of one key the later one
 * counts.
 */
async function withoutRevoked(
  keys: readonly TrustListFile['keys'][number][],
  revoked: readonly string[],
): Promise<readonly TrustListFile['keys'][number][]> {
  const byFingerprint = new Map<string, TrustListFile['keys'][number]>();
  for (const key of keys) {
    const [parsed] = fromFile({ ...emptyList, keys: [key] }).keys;
    if (parsed !== undefined && !revoked.includes(parsed.fingerprint)) byFingerprint.set(parsed.fingerprint, key);
  }
  return [...byFingerprint.values()];
}

async function listedKey(file: string, { notBefore, notAfter }: ListOrder): Promise<TrustListFile['keys'][number]> {
  const pem = String((await readKey(file)).key.export({ format: 'pem', type: 'spki' }));
  return { name: basename(file), pem, not_before: notBefore, not_after: notAfter };
}

async function fingerprintOf(text: string): Promise<string> {
  return isDigest(text) ? text : (await readKey(text)).fingerprint;
}

async function readKey(file: string): ReturnType<typeof readPublicKey> {
  try {
    return await readPublicKey(file);
  } catch (error) {
    if (error instanceof AgentError) throw error;
    if (!(error instanceof PublicKeyError)) throw unreadable(file, error);
    throw new FirmwareError('trust-key-refused', `${file} cannot be used as a key: ${describeError(error)}`, {
      cause: error,
      exit: 'usage',
    });
  }
}

/** Returns the digest of a release: given as such, or of an artifact file, for any signer. */
async function digestOf(text: string): Promise<string> {
  if (isDigest(text)) return text;
  await using file = await openNamedFile(text);
  await using bytes = new ByteReader(file.read(new AbortController().signal), text);
  return (await readEnvelope(new TarReader(bytes, text), { keys: [], allowUnsigned: true })).digest;
}

function isDigest(text: string): boolean {
  return /^sha256:[0-9a-f]{64}$/.test(text);
}

function unusable(why: string): VerificationError {
  return new VerificationError('trust-list-malformed', `trust list: ${why}`);
}
