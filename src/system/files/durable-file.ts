import { constants } from 'node:fs';
import * as realFs from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';

import { AgentError, describeError, mapError, systemErrorCode, undefinedIfMissing } from '../errors.ts';
import { SystemError } from '../system-errors.ts';
import { openOwn, OutsideFileError, readToBound } from './untrusted-file.ts';

/**
 * The functions of node:fs/promises that a durable file needs. memfs and the crash sweep's file system have them, too.
 */
export interface DurableFs {
  open(path: string, flags: string | number, mode?: number): Promise<FileHandle>;
  readFile(path: string): Promise<Buffer>;
  rename(from: string, to: string): Promise<void>;
}

/** The bound for a state file; the largest one is the image of a board. */
const MAX_BYTES = 256 * 1024 * 1024;
/** At most this number of entries that are not files is set aside. None is removed, and no more accumulate. */
const MOST_ASIDE = 5;
/** The error codes for a folder; the second one comes from Node's own `rm`. */
const FOLDER_CODES: ReadonlySet<string | undefined> = new Set(['EISDIR', 'ERR_FS_EISDIR']);

/**
 * File access for the agent's own files. A pipe, device or link at the path of such a file is refused unopened when it
 * is read, and removed when a new file is written: it cannot make the agent read, write or wait.
 */
export const nodeFs = {
  open: async (path: string, flags: string | number, mode?: number): Promise<FileHandle> => {
    if (flags === 'r') return openOwn(path, 'file or folder');
    if (flags !== 'w' && flags !== 'w+') return realFs.open(path, flags, mode);
    await realFs.rm(path, { force: true });
    return realFs.open(path, flags.replace('w', 'wx'), mode);
  },
  readFile: async (path: string): Promise<Buffer> =>
    readToBound(path, { maxBytes: MAX_BYTES, open: async (own) => openOwn(own, 'file') }),
  rename: realFs.rename,
  mkdir: realFs.mkdir,
} satisfies DurableFs & Pick<typeof realFs, 'mkdir'>;

/** A state file cannot be read or written. */
export class StorageError extends SystemError {
  constructor(
    action: string,
    path: string,
    cause: unknown,
    advice: string | undefined = cause instanceof AgentError ? cause.advice : undefined,
  ) {
    const full = systemErrorCode(cause) === 'ENOSPC';
    const why = full ? 'the disk is full' : describeError(cause);
    super(full ? 'disk-full' : 'state-unavailable', `cannot ${action} ${path}: ${why}`, { cause, advice });
  }
}

/** The entry at the path of a state file is not a file, or is endless. Waiting does not fix that. */
export class NoFileError extends StorageError {}

/** Returns the text of a file, or undefined if it does not exist. */
export async function readTextFile(path: string, fs: DurableFs = nodeFs): Promise<string | undefined> {
  const bytes = await mapError(undefinedIfMissing(fs.readFile(path)), (error) =>
    error instanceof OutsideFileError ? new NoFileError('read', path, error) : new StorageError('read', path, error),
  );
  return bytes?.toString('utf8');
}

/**
 * Returns the text of a file after making it durable, or undefined if there is no file. A program killed between rename
 * and fsync may have left a text that every reader sees and that a power loss could still revert.
 */
export async function readDurableTextFile(path: string, fs: DurableFs = nodeFs): Promise<string | undefined> {
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

/** The path of the draft that is to replace a file. */
export function draftOf(path: string): string {
  return `${path}.new`;
}

interface DraftTerms {
  readonly fs?: DurableFs;
  readonly flags?: 'w' | 'w+';
  readonly mode?: number;
}

/**
 * Opens an empty draft for a file. A directory at its path is not the agent's: it is moved aside with its content and
 * kept.
 */
export async function openDraft(
  path: string,
  { fs = nodeFs, flags = 'w', mode = 0o600 }: DraftTerms,
): Promise<FileHandle> {
  const draft = draftOf(path);
  try {
    return await fs.open(draft, flags, mode);
  } catch (error) {
    if (!FOLDER_CODES.has(systemErrorCode(error))) throw error;
  }
  await fs.rename(draft, await nextDamagedName(draft, fs));
  return fs.open(draft, flags, mode);
}

/**
 * Returns a free name for an entry that is not a file but has the path of one. Throws StorageError if too many such
 * names are taken.
 */
export async function nextDamagedName(path: string, fs: DurableFs): Promise<string> {
  for (let number = 1; number <= MOST_ASIDE; number += 1) {
    const name = number === 1 ? firstNameAside(path) : `${firstNameAside(path)}-${number}`;
    if (!(await isThere(name, fs))) return name;
  }
  const why = `it is not a regular file, and ${MOST_ASIDE} such were set aside before`;
  throw new StorageError('set aside', path, why, 'see what they are, and remove them');
}

/** True if an entry at the path of this file was set aside. */
export async function isDamagedCopy(path: string, fs: DurableFs): Promise<boolean> {
  return isThere(firstNameAside(path), fs);
}

function firstNameAside(path: string): string {
  return `${path}.unusable`;
}

async function isThere(path: string, fs: DurableFs): Promise<boolean> {
  try {
    await fs.readFile(path);
    return true;
  } catch (error) {
    return systemErrorCode(error) !== 'ENOENT';
  }
}

/** Writes a draft that is to replace a file, and makes it durable. Returns its path. */
export async function writeDraft(path: string, text: string, fs: DurableFs = nodeFs, mode = 0o600): Promise<string> {
  try {
    await using file = await openDraft(path, { fs, mode });
    await file.writeFile(text);
    await file.sync();
    return draftOf(path);
  } catch (error) {
    throw new StorageError('write', path, error);
  }
}

/**
 * Invariant 4: replaces a small file as a whole. A power loss leaves either the old text or the new one, since the text
 * is written to a second file and fsynced, then renamed, and the directory is fsynced.
 */
export async function replaceFileDurably(
  path: string,
  text: string,
  fs: DurableFs = nodeFs,
  mode = 0o600,
): Promise<void> {
  await commitTempFile(await writeDraft(path, text, fs, mode), path, fs);
}

/** Renames a draft to the file that it replaces, and makes the rename durable. */
export async function commitTempFile(draft: string, path: string, fs: DurableFs = nodeFs): Promise<void> {
  const renaming = renameDurably(draft, path, fs);
  await mapError(renaming, (error) => new StorageError('write', path, error));
}

/**
 * Overwrites bytes of a file in place, and returns when they are on the medium. Within one sector, a power cut leaves
 * the old or the new bytes. This is for files that a bootloader reads, which ignores the journal of a file system.
 */
export async function overwriteDurably(
  path: string,
  bytes: Uint8Array,
  position: number,
  fs: DurableFs,
): Promise<void> {
  await using file = await fs.open(path, constants.O_RDWR | constants.O_DSYNC);
  await writeWhole(file, bytes, position, path);
}

/**
 * Writes all bytes, with as many writes as it takes. Throws StorageError if the file takes none, or the system's error.
 */
export async function writeWhole(
  file: Pick<FileHandle, 'write'>,
  bytes: Uint8Array,
  position: number,
  path: string,
): Promise<void> {
  for (let done = 0; done < bytes.byteLength;) {
    const { bytesWritten } = await file.write(bytes, done, bytes.byteLength - done, position + done);
    if (bytesWritten === 0) throw new StorageError('write', path, `the file takes no byte at ${position + done}`);
    done += bytesWritten;
  }
}

/** Renames an entry within its directory, and makes that durable. */
async function renameDurably(from: string, to: string, fs: DurableFs): Promise<void> {
  await fs.rename(from, to);
  await syncDirectory(dirname(to), fs);
}

/** Makes renames and new names in a directory durable. */
export async function syncDirectory(path: string, fs: DurableFs = nodeFs): Promise<void> {
  await using directory = await fs.open(path, 'r');
  await directory.sync();
}

/**
 * Replaces a file. A directory that appeared at its path is renamed, and its new name returned; a pipe is replaced like
 * a file.
 */
export async function replaceFileOrForeign(path: string, text: string, fs: DurableFs): Promise<string | undefined> {
  try {
    await replaceFileDurably(path, text, fs);
    return undefined;
  } catch (error) {
    if (!(error instanceof StorageError) || systemErrorCode(error.cause) !== 'EISDIR') throw error;
    return replaceForeignFile(path, text, fs);
  }
}

/**
 * Renames an entry that is not a file, and writes a file under its name. The renamed entry is durable before the file
 * appears. Returns its new name. If no file can be written, nothing changes.
 */
export async function replaceForeignFile(path: string, text: string, fs: DurableFs): Promise<string> {
  const draft = await writeDraft(path, text, fs);
  const aside = await nextDamagedName(path, fs);
  await mapError(renameDurably(path, aside, fs), (error) => new StorageError('set aside', path, error));
  await commitTempFile(draft, path, fs);
  return aside;
}
