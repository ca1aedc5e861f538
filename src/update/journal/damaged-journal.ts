import { dirname } from 'node:path';

import {
  commitTempFile,
  nextDamagedName,
  replaceFileDurably,
  StorageError,
  syncDirectory,
  writeDraft,
} from '../../system/files/durable-file.ts';
import type { DurableFs } from '../../system/files/durable-file.ts';
import type { Log } from '../../system/log/log.ts';

/** Copies a damaged file aside, for a person who looks for the cause. The agent works on without it. */
export async function backUpDamaged(path: string, text: string, log: Log, fs: DurableFs): Promise<void> {
  try {
    await replaceFileDurably(`${path}.damaged`, text, fs);
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    log.warn({ code: error.code }, error.message);
  }
}

/**
 * Puts a file in the place of something that is no file. The latter is renamed, and durable under its new name before
 * the file appears. Returns that name. If no file can be written, nothing is touched.
 */
export async function replaceForeignFile(path: string, text: string, fs: DurableFs): Promise<string> {
  const draft = await writeDraft(path, text, fs);
  const aside = await nextDamagedName(path, fs);
  try {
    await fs.rename(path, aside);
    await syncDirectory(dirname(path), fs);
  } catch (error) {
    throw new StorageError('set aside', path, error);
  }
  await commitTempFile(draft, path, fs);
  return aside;
}
