import { decompressWithXz } from './xz-stream.ts';
import { decompressWithZlib } from './zlib-stream.ts';

export type Compression = 'none' | 'gzip' | 'zstd' | 'xz';

/** The number of bytes that `detectCompression` needs. */
export const MAGIC_BYTES = 6;

/**
 * The first bytes of each format, in hexadecimal digits. gzip: RFC 1952, section 2.3.1, with its only method. zstd: RFC
 * 8878, section 3.1, where a skippable frame may come first. xz: The .xz File Format 1.2, section 2.1.1.1.
 */
const magics: readonly (readonly [Exclude<Compression, 'none'>, RegExp])[] = [
  ['gzip', /^1f8b08/],
  ['zstd', /^(?:28b52ffd|5[0-9a-f]2a4d18)/],
  ['xz', /^fd377a585a00/],
];

/** Recognizes the compression by the first bytes. */
export function detectCompression(beginning: Uint8Array): Compression {
  const digits = Buffer.from(beginning.subarray(0, MAGIC_BYTES)).toString('hex');
  return magics.find(([, magic]) => magic.test(digits))?.[0] ?? 'none';
}

/**
 * Decompresses while reading, in constant memory, on another thread or process. Several members or frames in a row are
 * one content. The caller must bound the output. Throws FirmwareFormatError `compression-truncated`,
 * `compression-corrupt`, `compression-trailing` or `compression-memory` with the offset in the compressed bytes, or
 * `xz-missing` without the xz program. Errors of the given bytes pass through, and so does the signal's reason.
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
