import { randomUUID } from 'node:crypto';
import { link, lstat, open, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { systemErrorCode, undefinedIfMissing } from '../errors.ts';
import { syncDirectory } from './durable-file.ts';

/** The reason why a file that you named is not written. */
export class NewFileError extends Error {
  override readonly name = 'NewFileError';
  readonly kind: 'exists' | 'no-file';

  constructor(kind: 'exists' | 'no-file', message: string) {
    super(message);
    this.kind = kind;
  }
}

/**
 * Writes a file that the user named, readable for its owner only: under another name, made durable, then renamed.
 * Replaces an existing file only if `mayReplace`, and never anything else. Returns the size. Throws NewFileError or the
 * system's error; nothing then remains of the file.
 */
export async function writeNewFile(
  path: string,
  chunks: AsyncIterable<Uint8Array>,
  mayReplace: boolean,
): Promise<number> {
  await rejectExisting(path, mayReplace);
  const draft = join(dirname(path), `.${randomUUID()}.new`);
  try {
    const sizeBytes = await writeDraft(draft, chunks);
    await (mayReplace ? replaceFile(draft, path) : takeName(draft, path));
    await syncDirectory(dirname(path));
    return sizeBytes;
  } finally {
    await rm(draft, { force: true });
  }
}

async function writeDraft(draft: string, chunks: AsyncIterable<Uint8Array>): Promise<number> {
  await using file = await open(draft, 'wx', 0o600);
  let sizeBytes = 0;
  for await (const chunk of chunks) {
    await file.writeFile(chunk);
    sizeBytes += chunk.byteLength;
  }
  await file.sync();
  return sizeBytes;
}

async function replaceFile(draft: string, path: string): Promise<void> {
  await rejectExisting(path, true);
  await rename(draft, path);
}

/**
 * Gives the draft its name without replacing anything. A hard link cannot replace a file; on FAT, which has no links,
 * the name is checked before the rename.
 */
async function takeName(draft: string, path: string): Promise<void> {
  try {
    await link(draft, path);
  } catch (error) {
    if (systemErrorCode(error) === 'EEXIST') throw exists(path);
    if (!withoutLinks.has(systemErrorCode(error) ?? '')) throw error;
    await rejectExisting(path, false);
    await rename(draft, path);
  }
}

const withoutLinks: ReadonlySet<string> = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK']);

/** Throws NewFileError if the path exists and may not be replaced. */
export async function rejectExisting(path: string, mayReplace: boolean): Promise<void> {
  const facts = await undefinedIfMissing(lstat(path));
  if (facts === undefined) return;
  if (!facts.isFile()) throw new NewFileError('no-file', `${path} is not a regular file`);
  if (!mayReplace) throw exists(path);
}

function exists(path: string): NewFileError {
  return new NewFileError('exists', `${path} exists`);
}
