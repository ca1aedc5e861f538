import { lstat } from 'node:fs/promises';

import { undefinedIfMissing } from '../errors.ts';
import { draftOf, openDraft, nodeFs, StorageError } from './durable-file.ts';

/**
 * Replaces a file that everybody may read; a reader sees the old text or the new one. The file is not flushed, which
 * spares the flash memory: it is written again soon, and an older text after a power cut does no harm. Throws the
 * system's error, or StorageError.
 */
export async function publishFile(path: string, text: string): Promise<void> {
  await requireReplaceable(path);
  {
    await using file = await openDraft(path, { mode: 0o644 });
    await file.chmod(0o644); // the umask may have removed rights
    await file.writeFile(text);
  }
  await nodeFs.rename(draftOf(path), path);
}

/**
 * Throws StorageError for a device, a pipe or the like: the path may be a mistake, and the rename would replace it with
 * a file. A link is allowed.
 */
export async function requireReplaceable(path: string): Promise<void> {
  const there = await undefinedIfMissing(lstat(path));
  if (there !== undefined && !there.isFile() && !there.isSymbolicLink())
    throw new StorageError('write', path, 'it is not a regular file');
}
