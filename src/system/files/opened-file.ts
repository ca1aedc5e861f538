import type { Stats } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';

import { describeError, mapError, systemErrorCode } from '../errors.ts';
import { SystemError } from '../system-errors.ts';
import { openRegularFile } from './untrusted-file.ts';

const READ_BYTES = 256 * 1024;

/** The bytes of a file, wherever they come from. */
export interface FileContent {
  /** Omitted if the sender did not state it. */
  readonly sizeBytes: number | undefined;
  /** Reads from the first byte on. A chunk is valid until the next one is requested. Of a file that is sent, only the first megabytes can be read again. */
  read(signal: AbortSignal): AsyncIterable<Uint8Array>;
}

/** A file that an operator named. It stays open until it is disposed. */
export interface OpenedFile extends FileContent, AsyncDisposable {
  /** True once it was read completely. */
  readonly isRead: boolean;
}

/**
 * Opens a regular file. Throws `file-unreadable` (exit 64 for a name that cannot be opened, 74 for a failing disk).
 * Reading it throws `file-changed` (retry) if the file is written to while it is read.
 */
export async function openNamedFile(path: string): Promise<OpenedFile> {
  const file = await openRegularFile(path).catch((error: unknown) => {
    throw unreadable(path, whyNotOpened(error), error);
  });
  const opened = {
    isRead: false,
    sizeBytes: (await file.stat()).size,
    read: async function* (signal: AbortSignal): AsyncGenerator<Uint8Array, void, undefined> {
      yield* readChunks(file, path, signal);
      opened.isRead = true;
    },
    [Symbol.asyncDispose]: async () => file.close(),
  };
  return opened;
}

/** Reads all of it into memory. Undefined if it has more than `maxBytes`. */
export async function readWhole(
  content: FileContent,
  maxBytes: number,
  signal: AbortSignal,
): Promise<Buffer | undefined> {
  let buffer = Buffer.alloc(Math.min(maxBytes, content.sizeBytes ?? READ_BYTES));
  let length = 0;
  for await (const chunk of content.read(signal)) {
    if (length + chunk.byteLength > maxBytes) return undefined;
    if (length + chunk.byteLength > buffer.byteLength)
      buffer = Buffer.concat([buffer], Math.min(maxBytes, 2 * (length + chunk.byteLength)));
    buffer.set(chunk, length);
    length += chunk.byteLength;
  }
  return buffer.subarray(0, length);
}

function whyNotOpened(error: unknown): string {
  const code = systemErrorCode(error);
  return code === 'ENOENT' || code === 'ENOTDIR' ? 'no such file' : describeError(error);
}

async function* readChunks(
  file: FileHandle,
  path: string,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void, undefined> {
  const before = await file.stat();
  const buffer = Buffer.allocUnsafe(READ_BYTES);
  let position = 0;
  for (;;) {
    signal.throwIfAborted();
    const { bytesRead } = await read(file, path, buffer, position);
    position += bytesRead;
    if (position > before.size) throw changed(path, before);
    if (bytesRead === 0) break;
    yield buffer.subarray(0, bytesRead);
  }
  const after = await file.stat();
  if (position !== before.size || after.mtimeMs !== before.mtimeMs) throw changed(path, before);
}

async function read(file: FileHandle, path: string, buffer: Buffer, position: number): Promise<{ bytesRead: number }> {
  const reading = file.read(buffer, 0, buffer.length, position);
  return mapError(reading, (error) => unreadable(path, describeError(error), error));
}

function changed(path: string, { size }: Stats): SystemError {
  return new SystemError('file-changed', `${path} had ${size} bytes and is being written to`);
}

function unreadable(path: string, why: string, cause?: unknown): SystemError {
  const exit = systemErrorCode(cause) === 'EIO' ? 'disk' : undefined;
  return new SystemError('file-unreadable', `cannot read ${path}: ${why}`, { exit, cause });
}
