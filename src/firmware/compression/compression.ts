import { decompressWithXz } from './xz-stream.ts';
import { decompressWithZlib } from './zlib-stream.ts';

export type Compression = 'none' | 'gzip' | 'zstd' | 'xz';

/** What detectCompression needs to see. */
export const MAGIC_BYTES = 6;

/**
 * gzip: RFC 1952, section 2.3.1, with the only method there is. zstd: RFC 8878, section 3.1, where a skippable frame may
 * stand first. xz: The .xz File Format 1.2, section 2.1.1.1. In hexadecimal digits.
 */
const magics: readonly (readonly [Exclude<Compression, 'none'>, RegExp])[] = [
  ['gzip', /^1f8b08/],
  ['zstd', /^(?:28b52ffd|5[0-9a-f]2a4d18)/],
  ['xz', /^fd377a585a00/],
];

/** Tells the compression from the first bytes. */
export function detectCompression(beginning: Uint8Array): Compression {
  const digits = Buffer.from(beginning.subarray(0, MAGIC_BYTES)).toString('hex');
  return magics.find(([, magic]) => magic.test(digits))?.[0] ?? 'none';
}

/**
 * Decompresses as it reads, in constant memory, off this thread. Several members or frames one behind the other are one
 * content. Throws FirmwareFormatError `compression-truncated`, `compression-corrupt`, `compression-trailing` or
 * `compression-memory`, with the offset in the compressed bytes; `xz-missing` without the xz program. What the given
 * bytes throw passes through, so does the signal's reason. How much may come out is for the taker to bound.
 */
export function decompress(
  kind: Compression,
  bytes: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): AsyncIterable<Uint8Array> {
  switch (kind) {
    case 'none':
      return bytes;
    case 'gzip':
    case 'zstd':
      return decompressWithZlib(kind, bytes, signal);
    case 'xz':
      return decompressWithXz(bytes, signal);
  }
}
