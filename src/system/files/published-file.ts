import { lstat } from 'node:fs/promises';

import { systemErrorCode } from '../errors.ts';
import { draftOf, openDraft, ownFs, StorageError } from './durable-file.ts';

/**
 * Replaces a file that everybody may read: a reader sees the old text or the new one. It is written again soon, and spares the
 * flash memory the flush: after a power cut it may be an older one. Throws the system's error, or StorageError.
 */
export async function publishFile(path: string, text: string): Promise<void> {
  await requireReplaceable(path);
  {
    await using file = await openDraft(path, { mode: 0o644 });
    await file.chmod(0o644); // whatever the umask
    await file.writeFile(text);
  }
  await ownFs.rename(draftOf(path), path);
}

/**
 * What a person names to be written may be a device, or a pipe, which a rename would replace by a file. Throws StorageError where
 * something else than a file, or a link, stands there.
 */
export async function requireReplaceable(path: string): Promise<void> {
  try {
    const there = await lstat(path);
    if (!there.isFile() && !there.isSymbolicLink()) throw new StorageError('write', path, 'it is not a regular file');
  } catch (error) {
    if (systemErrorCode(error) !== 'ENOENT') throw error;
  }
}
