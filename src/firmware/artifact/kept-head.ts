import { deflateRawSync, inflateRawSync } from 'node:zlib';

/** What mender-artifact writes takes less than 10 KiB, most of them zeros of tar. */
const HEAD_LIMIT_BYTES = 256 * 1024;
const KEPT_LIMIT_CHARACTERS = 32 * 1024;

/** An artifact up to its first payload, in a form that fits into the journal; undefined if it is too large for that. */
export function keepHead(head: Uint8Array): string | undefined {
  if (head.length > HEAD_LIMIT_BYTES) return undefined;
  const kept = deflateRawSync(head).toString('base64');
  return kept.length > KEPT_LIMIT_CHARACTERS ? undefined : kept;
}

/** Undefined: it is damaged. Whether it is what it was, only its signature shows. */
export function headOf(kept: string): Uint8Array | undefined {
  try {
    return inflateRawSync(Buffer.from(kept, 'base64'), { maxOutputLength: HEAD_LIMIT_BYTES });
  } catch (error) {
    if (error instanceof Error && 'code' in error) return undefined; // of zlib: no such stream, or too long
    throw error;
  }
}
