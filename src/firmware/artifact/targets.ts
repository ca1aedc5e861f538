import type { PayloadHeader } from '../../update/ports.ts';
import { VerificationError } from '../errors.ts';
import type { ArtifactDescription, PayloadDescription } from './header.ts';
import type { Manifest } from './manifest.ts';
import { quoted } from './refusal.ts';

/** More than `order` may name. */
const ORDERED_PER_PAYLOAD = 1_000;

/** A file of a payload that the manifest names. */
export interface DeclaredFile {
  readonly header: PayloadHeader;
  /** The digest of the installed content: `sha256:` and the hex digest of the file, or of the result of a delta. */
  readonly digest: string;
  /** The digest of the file itself. */
  readonly fileDigest: string;
}

/**
 * Assigns a target to each file of each payload, in the order of the manifest. The one file of a `rootfs-image` goes to
 * the only target of kind slots, and its meta-data must not name targets. Every other type of payload names its targets
 * in its meta-data: `{"targets": {"FILE": "TARGET"}}`, and those for deltas in `deltas`. No target gets two files of
 * one artifact. `"order": ["TARGET", …]` names boards that are flashed one after the other; the remaining boards are
 * flashed in parallel.
 */
export function assignTargets(artifact: ArtifactDescription, manifest: Manifest): readonly (readonly DeclaredFile[])[] {
  for (const number of manifest.payloads.keys()) {
    if (number >= artifact.payloads.length)
      throw malformed(`the manifest has files of payload ${number}, the header not`);
  }
  const assigned = artifact.payloads.map((payload, number) => {
    requireSupported(payload);
    const files = manifest.payloads.get(number);
    if (files === undefined) throw malformed(`payload ${number} has no files`);
    return assignPayload(payload, number, files);
  });
  requireDistinctTargets(assigned.flat());
  return assigned;
}

function assignPayload(
  payload: PayloadDescription,
  number: number,
  files: ReadonlyMap<string, string>,
): readonly DeclaredFile[] {
  if (payload.type === 'rootfs-image' && files.size !== 1) {
    throw malformed(`a payload of type rootfs-image has one file, this one has ${files.size}`);
  }
  const named = new Set(payload.targets?.values());
  for (const target of payload.order) {
    if (!named.has(target)) throw malformed(`its meta-data orders the target ${quoted(target)}, which takes no file`);
  }
  for (const fileName of payload.targets?.keys() ?? []) {
    if (!files.has(fileName)) throw malformed(`its meta-data names a target for ${quoted(fileName)}, which it lacks`);
  }
  requireDeltas(payload, files);
  return Array.from(files, ([fileName, hex]) => promisedFile(payload, number, fileName, `sha256:${hex}`));
}

function requireDeltas({ targets, deltas }: PayloadDescription, files: ReadonlyMap<string, string>): void {
  for (const fileName of deltas.keys()) {
    const isOther = targets?.has(fileName) === true || !files.has(fileName);
    if (isOther) throw malformed(`its meta-data names as delta ${quoted(fileName)}, which is not one`);
  }
}

function promisedFile(payload: PayloadDescription, number: number, fileName: string, fileDigest: string): DeclaredFile {
  const described = payload.deltas.get(fileName);
  const delta = described === undefined ? undefined : { base: described.base, result: described.result };
  const digest = delta?.result.digest ?? fileDigest;
  const target = targetOf(payload, fileName);
  const header = { fileName, target, order: orderOf(payload, number, fileName), digest, ...(delta && { delta }) };
  return { header, digest, fileDigest };
}

function requireSupported({ type, targets, deltas }: PayloadDescription): void {
  if (type === 'rootfs-image') {
    if (targets === undefined && deltas.size === 0) return;
    throw malformed('a payload of type rootfs-image may not name targets or deltas; use another type to do so');
  }
  if (type !== undefined && (targets !== undefined || deltas.size > 0)) return;
  throw new VerificationError(
    'payload-type',
    `artifact: the payload's type is ${quoted(type ?? 'null')}, and its meta-data names no targets`,
    'write the artifact with meta-data {"targets": {"FILE": "TARGET"}}, or as rootfs-image',
  );
}

function targetOf(payload: PayloadDescription, fileName: string): PayloadHeader['target'] {
  const delta = payload.deltas.get(fileName);
  if (payload.type === 'rootfs-image' || (delta !== undefined && delta.target === undefined)) return 'rootfs-image';
  const name = delta === undefined ? payload.targets?.get(fileName) : delta.target;
  if (name === undefined || name === '') throw malformed(`its meta-data names no target for ${quoted(fileName)}`);
  return { name };
}

/**
 * Returns the position of a file in the order of installation: by payload, then by the `order` of its meta-data, if
 * any.
 */
function orderOf({ targets, order }: PayloadDescription, number: number, fileName: string): number | undefined {
  const place = order.indexOf(targets?.get(fileName) ?? '');
  return place < 0 ? undefined : number * ORDERED_PER_PAYLOAD + place;
}

function requireDistinctTargets(files: readonly DeclaredFile[]): void {
  const taken = new Set<string>();
  for (const { header } of files) {
    const target = typeof header.target === 'string' ? header.target : `target ${header.target.name}`;
    if (taken.has(target)) throw malformed(`two of its files go to ${quoted(target)}`);
    taken.add(target);
  }
}

function malformed(why: string): VerificationError {
  return new VerificationError('artifact-malformed', `artifact: ${why}`);
}
