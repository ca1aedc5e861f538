import { constants } from 'node:fs';

import { systemErrorCode } from '../../system/errors.ts';
import type { DurableFs } from '../../system/files/durable-file.ts';
import { alignUp } from '../blocks/block-pool.ts';
import { BootloaderError } from './errors.ts';

/** The errors of a file system that cannot bypass the page cache, such as one in memory. */
const NO_WAY = new Set(['EINVAL', 'ENOTSUP', 'EOPNOTSUPP']);

/**
 * Returns the first bytes of a file as its medium holds them. Bypasses the page cache, which no bootloader sees
 * (O_DIRECT). Returns undefined if the file system cannot do that. Throws the operating system's errors.
 */
export async function readFromMedium(
  path: string,
  maxBytes: number,
  fs: Pick<DurableFs, 'open'>,
): Promise<Buffer | undefined> {
  const length = alignUp(maxBytes);
  // V8 maps growable memory page by page, so that it begins at a page, as O_DIRECT demands.
  const page = Buffer.from(new SharedArrayBuffer(length, { maxByteLength: length }));
  try {
    await using file = await fs.open(path, constants.O_RDONLY | constants.O_DIRECT);
    const { bytesRead } = await file.read(page, 0, length, 0);
    return Buffer.from(page.subarray(0, Math.min(bytesRead, maxBytes)));
  } catch (error) {
    if (NO_WAY.has(systemErrorCode(error) ?? '')) return undefined;
    throw error;
  }
}

export function notPersistedError(title: string, path: string): BootloaderError {
  const why = `${title}: ${path} was written without an error, but its medium holds something else`;
  return new BootloaderError('boot-write-not-confirmed', why, { advice: 'the medium loses writes: replace it' });
}
