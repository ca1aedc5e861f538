import type { Stats } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';

import type { AgentError } from '../system/errors.ts';
import { describeError, systemErrorCode } from '../system/errors.ts';
import { openRegularFile } from '../system/files/outside-file.ts';
import type { FirmwareSource, FirmwareTransfer } from '../update/ports.ts';
import { FirmwareError } from './errors.ts';

const READ_BYTES = 256 * 1024;

/**
 * A source that reads a decoded artifact or image from a local file. Throws `file-unreadable` (exit 64 for a name that
 * cannot be opened, 74 for a failing disk), or `file-changed` (retry) if the file is written to while it is read.
 */
export function openFileSource(path: string): FirmwareSource {
  return { form: 'decoded', open: (_from, signal) => openTransfer(path, signal) };
}

/** Throws `file-unreadable` for a file that cannot be opened, before anything is begun for it. */
export async function requireFile(path: string): Promise<void> {
  const { file } = await openFile(path);
  await file.close();
}

async function openFile(path: string): Promise<{ readonly file: FileHandle; readonly stats: Stats }> {
  const file = await openRegularFile(path).catch((error: unknown) => {
    throw unreadable(path, whyNotOpened(error), error);
  });
  return { file, stats: await file.stat() };
}

function whyNotOpened(error: unknown): string {
  const code = systemErrorCode(error);
  return code === 'ENOENT' || code === 'ENOTDIR' ? 'there is no such file' : describeError(error);
}

async function openTransfer(path: string, signal: AbortSignal): Promise<FirmwareTransfer> {
  signal.throwIfAborted();
  const { file, stats } = await openFile(path);
  return {
    startOffset: 0,
    totalBytes: stats.size,
    validator: undefined,
    chunks: readChunks(file, path, stats, signal),
    [Symbol.asyncDispose]: () => file.close(),
  };
}

async function* readChunks(
  file: FileHandle,
  path: string,
  before: Stats,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void, undefined> {
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
  try {
    return await file.read(buffer, 0, buffer.length, position);
  } catch (error) {
    throw unreadable(path, describeError(error), error);
  }
}

function changed(path: string, { size }: Stats): AgentError {
  return new FirmwareError('file-changed', `${path} had ${size} bytes and is being written to`);
}

function unreadable(path: string, why: string, cause?: unknown): AgentError {
  const exit = systemErrorCode(cause) === 'EIO' ? 'disk' : undefined;
  return new FirmwareError('file-unreadable', `cannot read ${path}: ${why}`, { exit, cause });
}
