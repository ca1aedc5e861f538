import { constants } from 'node:fs';
import * as realFs from 'node:fs/promises';
import { dirname } from 'node:path';

import { describeError, systemErrorCode } from '../errors.ts';
import { SystemError } from '../system-errors.ts';

/** The slice of node:fs/promises that a durable file needs; memfs and the crash sweep's file system satisfy it. */
export type DurableFs = Pick<typeof realFs, 'open' | 'readFile' | 'rename'>;

/** A state file cannot be read or written. */
export class StorageError extends SystemError {
  constructor(action: string, path: string, cause: unknown) {
    const full = systemErrorCode(cause) === 'ENOSPC';
    const why = full ? 'the disk is full' : describeError(cause);
    super(full ? 'disk-full' : 'state-unavailable', `cannot ${action} ${path}: ${why}`, { cause });
  }
}

/** The text of a file, or undefined where there is none. */
export async function readTextFile(path: string, fs: DurableFs = realFs): Promise<string | undefined> {
  try {
    return await fs.readFile(path, 'utf8');
  } catch (error) {
    if (systemErrorCode(error) === 'ENOENT') return undefined;
    throw new StorageError('read', path, error);
  }
}

/**
 * The same, once no power cut can take it back: a program that was killed between its rename and its fsync leaves a text
 * that every reader sees, and that the medium may not have.
 */
export async function readDurableTextFile(path: string, fs: DurableFs = realFs): Promise<string | undefined> {
  const text = await readTextFile(path, fs);
  if (text === undefined) return undefined;
  try {
    {
      await using file = await fs.open(path, 'r');
      await file.sync();
    }
    await syncDirectory(dirname(path), fs);
    return text;
  } catch (error) {
    throw new StorageError('make durable', path, error);
  }
}

/** What is to replace a file, beside it and durable. Returns its path. */
export async function writeDraft(path: string, text: string, fs: DurableFs = realFs, mode = 0o600): Promise<string> {
  const draft = `${path}.new`;
  try {
    await using file = await fs.open(draft, 'w', mode);
    await file.writeFile(text);
    await file.sync();
    return draft;
  } catch (error) {
    throw new StorageError('write', path, error);
  }
}

/**
 * Replaces a small file so that a power cut leaves the old text or the new one: written beside, fsynced, renamed, the
 * directory fsynced.
 */
export async function replaceFileDurably(
  path: string,
  text: string,
  fs: DurableFs = realFs,
  mode = 0o600,
): Promise<void> {
  const draft = await writeDraft(path, text, fs, mode);
  try {
    await fs.rename(draft, path);
    await syncDirectory(dirname(path), fs);
  } catch (error) {
    throw new StorageError('write', path, error);
  }
}

/** What lies where the draft is to be is removed, never followed: others may write in that directory. */
const amongOthers: DurableFs = {
  open: async (path, flags, mode) => {
    if (flags !== 'w') return realFs.open(path, flags, mode);
    await realFs.rm(path, { force: true });
    return realFs.open(path, 'wx', mode);
  },
  readFile: realFs.readFile,
  rename: realFs.rename,
};

/** The same, in a directory that is not the agent's own. */
export async function replaceFileAmongOthers(path: string, text: string): Promise<void> {
  await replaceFileDurably(path, text, amongOthers);
}

/**
 * Overwrites bytes of a file where they stand, and returns when they are on the medium; within one sector they are old or new
 * after a power cut. For files that a bootloader reads, which knows nothing of a file system's journal.
 */
export async function overwriteDurably(
  path: string,
  bytes: Uint8Array,
  position: number,
  fs: DurableFs,
): Promise<void> {
  await using file = await fs.open(path, constants.O_RDWR | constants.O_DSYNC);
  for (let done = 0; done < bytes.byteLength;) {
    const { bytesWritten } = await file.write(bytes, done, bytes.byteLength - done, position + done);
    done += bytesWritten;
  }
}

/** Makes renames and new names in a directory durable. */
export async function syncDirectory(path: string, fs: DurableFs = realFs): Promise<void> {
  await using directory = await fs.open(path, 'r');
  await directory.sync();
}
