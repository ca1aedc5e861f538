import { deflateRawSync, inflateRawSync } from 'node:zlib';

import { undefinedIfThrows, systemErrorCode } from '../../system/errors.ts';
import type { ArtifactPlace, WrittenPrefix } from '../../update/ports.ts';
import { staleCheckpoint } from '../errors.ts';

/**
 * The bound for the part before the payloads. What mender-artifact writes takes less than 10 KiB, most of it zeros of
 * tar.
 */
const HEAD_LIMIT_BYTES = 256 * 1024;
const KEPT_LIMIT_CHARACTERS = 32 * 1024;

/**
 * Returns the part of an artifact before its first payload, in a form that fits into the journal, or undefined if it is
 * too large.
 */
export function encodeHeader(head: Uint8Array): string | undefined {
  if (head.length > HEAD_LIMIT_BYTES) return undefined;
  const kept = deflateRawSync(head).toString('base64');
  return kept.length > KEPT_LIMIT_CHARACTERS ? undefined : kept;
}

/**
 * Reverses `encodeHeader`. Returns undefined if the text is damaged. Only the signature can show that it was not
 * changed.
 */
export function decodeHeader(kept: string): Uint8Array | undefined {
  const bytes = Buffer.from(kept, 'base64');
  const isDamage = (error: unknown): boolean => systemErrorCode(error) !== undefined; // of zlib, or the stream is too long
  return undefinedIfThrows(isDamage, () => inflateRawSync(bytes, { maxOutputLength: HEAD_LIMIT_BYTES }));
}

/** The place in an artifact where an earlier transfer was interrupted. */
export interface ResumedAt {
  readonly place: ArtifactPlace;
  readonly image: WrittenPrefix;
}

/** Throws `checkpoint-stale`. */
export function requirePlausible({ place, image }: ResumedAt): void {
  const { payload, member, file, delta } = place;
  const readBytes = delta === undefined ? image.sizeBytes : delta.takenBytes + delta.skipBytes;
  const numbers = [
    payload,
    member.leftBytes,
    file.sizeBytes,
    image.sizeBytes,
    delta?.takenBytes ?? 0,
    delta?.skipBytes ?? 0,
    ...place.whole.map((each) => each.sizeBytes),
  ];
  const areSizes = numbers.every((number) => Number.isSafeInteger(number) && number >= 0);
  if (areSizes && readBytes <= file.sizeBytes && Number.isSafeInteger(member.sizeBytes)) return;
  throw staleCheckpoint('its sizes contradict each other');
}
