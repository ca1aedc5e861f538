import { constants } from 'node:fs';
import * as realFs from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';

import { AgentError, describeError, systemErrorCode } from '../errors.ts';
import { SystemError } from '../system-errors.ts';
import { openOwn, OutsideFileError, readToBound } from './outside-file.ts';

/** What a durable file needs of node:fs/promises, which satisfies it, as memfs and the crash sweep's file system do. */
export interface DurableFs {
  open(path: string, flags: string | number, mode?: number): Promise<FileHandle>;
  readFile(path: string): Promise<Buffer>;
  rename(from: string, to: string): Promise<void>;
}

/** The largest is the image of a board. */
const MAX_BYTES = 256 * 1024 * 1024;
/** Of what was no file: nothing is removed, and nothing piles up. */
const MOST_ASIDE = 5;
/** The second one is Node's own, of `rm`. */
const FOLDER_CODES: ReadonlySet<string | undefined> = new Set(['EISDIR', 'ERR_FS_EISDIR']);

/**
 * Of the agent's own files. A pipe, a device or a link in the place of one is refused where it is read, without being opened,
 * and removed where a new file is to be: whoever planted it gets nothing read, written or held up.
 */
export const ownFs = {
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

/** What stands in the place of a state file is no file, or has no end: waiting does not cure that. */
export class NoFileError extends StorageError {}

/** The text of a file, or undefined where there is none. */
export async function readTextFile(path: string, fs: DurableFs = ownFs): Promise<string | undefined> {
  try {
    return (await fs.readFile(path)).toString('utf8');
  } catch (error) {
    if (systemErrorCode(error) === 'ENOENT') return undefined;
    if (error instanceof OutsideFileError) throw new NoFileError('read', path, error);
    throw new StorageError('read', path, error);
  }
}

/**
 * The same, once no power cut can take it back: a program that was killed between its rename and its fsync leaves a text
 * that every reader sees, and that the medium may not have.
 */
export async function readDurableTextFile(path: string, fs: DurableFs = ownFs): Promise<string | undefined> {
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

/** Where that is written which is to replace a file. */
export function draftOf(path: string): string {
  return `${path}.new`;
}

interface DraftOptions {
  readonly fs?: DurableFs;
  readonly flags?: 'w' | 'w+';
  readonly mode?: number;
}

/** An empty draft for a file. A folder in its place is moved aside, with what is in it: it is no draft of ours, and stays. */
export async function openDraft(
  path: string,
  { fs = ownFs, flags = 'w', mode = 0o600 }: DraftOptions,
): Promise<FileHandle> {
  const draft = draftOf(path);
  try {
    return await fs.open(draft, flags, mode);
  } catch (error) {
    if (!FOLDER_CODES.has(systemErrorCode(error))) throw error;
  }
  await fs.rename(draft, await nameAside(draft, fs));
  return fs.open(draft, flags, mode);
}

/** A free name for what stands in the place of a file, and is none. Throws StorageError where there were too many before. */
export async function nameAside(path: string, fs: DurableFs): Promise<string> {
  for (let number = 1; number <= MOST_ASIDE; number += 1) {
    const name = number === 1 ? firstNameAside(path) : `${firstNameAside(path)}-${number}`;
    if (!(await isThere(name, fs))) return name;
  }
  const why = `it is not a regular file, and ${MOST_ASIDE} such were set aside before`;
  throw new StorageError('set aside', path, why, 'see what they are, and remove them');
}

/** Whether something was set aside that stood in the place of this file. */
export async function wasSetAside(path: string, fs: DurableFs): Promise<boolean> {
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

/** What is to replace a file, beside it and durable. Returns its path. */
export async function writeDraft(path: string, text: string, fs: DurableFs = ownFs, mode = 0o600): Promise<string> {
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
 * Replaces a small file so that a power cut leaves the old text or the new one: written beside, fsynced, renamed, the
 * directory fsynced.
 */
export async function replaceFileDurably(
  path: string,
  text: string,
  fs: DurableFs = ownFs,
  mode = 0o600,
): Promise<void> {
  await keepDraft(await writeDraft(path, text, fs, mode), path, fs);
}

/** Puts a draft in the place of the file that it is to replace. */
export async function keepDraft(draft: string, path: string, fs: DurableFs = ownFs): Promise<void> {
  try {
    await fs.rename(draft, path);
    await syncDirectory(dirname(path), fs);
  } catch (error) {
    throw new StorageError('write', path, error);
  }
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
  await writeWhole(file, bytes, position, path);
}

/** As often as a write is short. Throws a StorageError where the file takes nothing, and what the operating system says. */
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

/** Makes renames and new names in a directory durable. */
export async function syncDirectory(path: string, fs: DurableFs = ownFs): Promise<void> {
  await using directory = await fs.open(path, 'r');
  await directory.sync();
}
