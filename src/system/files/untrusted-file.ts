import { constants } from 'node:fs';
import type { Stats } from 'node:fs';
import { open } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';

import { systemErrorCode } from '../errors.ts';
import { SerialQueue } from '../serial-queue.ts';
import { Deadline } from '../time/deadline.ts';

export interface UntrustedFileOptions {
  readonly maxBytes: number;
  /** Returns the beginning of a longer file (`cut`), or refuses it, which is the default. */
  readonly longer?: 'cut' | 'refused';
  readonly timeoutMs?: number;
  /** Opens a regular file, and nothing else. Default: `openRegularFile`. */
  readonly open?: (path: string) => Promise<FileHandle>;
}

/** A named file is not a regular file, is too long, or could not be read in time. */
export class OutsideFileError extends Error {
  override readonly name = 'OutsideFileError';
}

/** True if a file could not be read: for its content, or because of the system. */
export function isUnreadable(error: unknown): boolean {
  return error instanceof OutsideFileError || systemErrorCode(error) !== undefined;
}

/** The file is opened through /proc. Without /proc, an existing file must not be taken for a missing one. */
class NoProcError extends Error {
  override readonly name = 'NoProcError';
  readonly code = 'ENOSYS';

  constructor(cause: unknown) {
    super('/proc is not mounted', { cause });
  }
}

const DEFAULT_TIMEOUT_MS = 10_000;
const FIRST_BYTES = 4_096;
/** O_PATH of open(2), which Node does not export: opens a place without opening what is there. */
const O_PATH = 0o10_000_000;
/**
 * At most two concurrent reads. libuv has four threads for files, names and compression: a file system that hangs must
 * not occupy them all.
 */
const reads = new SerialQueue(2);
const never = new AbortController().signal;

/**
 * Returns the bytes of a regular file (also of /proc or /sys) that a user, the configuration or a program named. If a
 * file system hangs, only other calls of this function wait, each until its deadline. Throws OutsideFileError or the
 * system's error.
 */
export async function readUntrustedFile(
  path: string,
  options: UntrustedFileOptions,
  signal: AbortSignal = never,
): Promise<Buffer> {
  const { timeoutMs = DEFAULT_TIMEOUT_MS } = options;
  const late = (): Error => new OutsideFileError(`it was not read within ${timeoutMs} ms`);
  using deadline = new Deadline(timeoutMs, late, signal);
  return await reads.run(async () => readToBound(path, options, deadline.signal), deadline.signal);
}

/**
 * Opens a regular file after looking at it: opening a pipe would wait, opening a terminal may make it ours, opening a
 * watchdog would start it.
 */
export async function openRegularFile(path: string): Promise<FileHandle> {
  await using place = await open(path, O_PATH);
  return await openPlace(place, path, (facts) => facts.isFile());
}

/** Opens a file or folder that only this program can have made, so that a link is refused. */
export async function openOwn(path: string, kind: 'file' | 'file or folder'): Promise<FileHandle> {
  await using place = await open(path, O_PATH | constants.O_NOFOLLOW);
  return await openPlace(place, path, (facts) => facts.isFile() || (kind === 'file or folder' && facts.isDirectory()));
}

async function openPlace(place: FileHandle, path: string, isWanted: (facts: Stats) => boolean): Promise<FileHandle> {
  if (!isWanted(await place.stat())) throw new OutsideFileError('it is not a regular file');
  const same = `/proc/self/fd/${place.fd}`;
  try {
    return await open(same, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch (error) {
    // the open file has this name, also if it was removed in the meantime
    if (systemErrorCode(error) === 'ENOENT') throw new NoProcError(error);
    if (error instanceof Error) error.message = error.message.replace(same, path);
    throw error;
  }
}

/**
 * Reads at most `maxBytes`, without a deadline: for file systems that must answer anyway. Ignores the size of the file,
 * since a kernel file claims to be empty and others may grow.
 */
export async function readToBound(
  path: string,
  { maxBytes, longer = 'refused', open: openFile = openRegularFile }: UntrustedFileOptions,
  signal: AbortSignal = never,
): Promise<Buffer> {
  await using file = await openFile(path);
  const { size } = await file.stat();
  if (size > maxBytes && longer === 'refused') throw tooLong(maxBytes);
  let buffer = Buffer.alloc(Math.min(maxBytes, Math.max(size, FIRST_BYTES)) + 1);
  let length = 0;
  for (;;) {
    signal.throwIfAborted();
    const { bytesRead } = await file.read(buffer, length, buffer.byteLength - length);
    length += bytesRead;
    if (length > maxBytes) {
      if (longer === 'cut') return buffer.subarray(0, maxBytes);
      throw tooLong(maxBytes);
    }
    if (bytesRead === 0) return buffer.subarray(0, length);
    if (length === buffer.byteLength)
      buffer = Buffer.concat([buffer, Buffer.alloc(Math.min(length, maxBytes + 1 - length))]);
  }
}

function tooLong(maxBytes: number): OutsideFileError {
  return new OutsideFileError(`it is longer than ${maxBytes} bytes`);
}
