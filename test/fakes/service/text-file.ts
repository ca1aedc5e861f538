import { closeSync, fstatSync, openSync, readSync } from 'node:fs';

import type { ReadableText } from './firmware-text.ts';

const PIECE_BYTES = 1024 * 1024;

/** A text that was written before, sent as fast as it can be read. */
export function textFile(path: string): ReadableText {
  const descriptor = openSync(path, 'r');
  const { size } = fstatSync(descriptor);
  return {
    sizeBytes: size,
    *read(first = 0, end = size) {
      const piece = Buffer.allocUnsafe(PIECE_BYTES);
      for (let position = first; position < end;) {
        const got = readSync(descriptor, piece, 0, Math.min(PIECE_BYTES, end - position), position);
        if (got === 0) throw new Error(`${path} became shorter while it was served`);
        position += got;
        yield piece.subarray(0, got);
      }
    },
    close: () => closeSync(descriptor),
  };
}
