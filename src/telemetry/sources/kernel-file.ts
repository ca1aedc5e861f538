import { open, readdir } from 'node:fs/promises';

import { abortable } from '../../system/abortable.ts';
import { describeError } from '../../system/errors.ts';
import { sourceFailed } from './source.ts';

const MAX_BYTES = 64 * 1024;

/** The beginning of a file, which for a file of the kernel is all of it. Throws TelemetryError. */
export async function readKernelFile(path: string, signal: AbortSignal): Promise<string> {
  signal.throwIfAborted();
  try {
    return await abortable(readStart(path), signal);
  } catch (error) {
    signal.throwIfAborted();
    throw sourceFailed(path, describeError(error), error);
  }
}

/** A file that holds one number, and perhaps words after it. */
export async function readKernelNumber(path: string, signal: AbortSignal): Promise<number> {
  const text = await readKernelFile(path, signal);
  const number = Number.parseFloat(text);
  if (!Number.isFinite(number)) throw sourceFailed(path, `“${text.trim().slice(0, 40)}” is not a number`);
  return number;
}

/** Names in a directory, in order; none where there is no such directory. */
export async function listDirectory(path: string): Promise<readonly string[]> {
  try {
    return (await readdir(path)).sort();
  } catch (error) {
    if (error instanceof Error) return [];
    throw error;
  }
}

async function readStart(path: string): Promise<string> {
  await using file = await open(path, 'r');
  const buffer = Buffer.alloc(MAX_BYTES);
  let length = 0;
  for (;;) {
    const { bytesRead } = await file.read(buffer, length, MAX_BYTES - length);
    length += bytesRead;
    if (bytesRead === 0 || length === MAX_BYTES) return buffer.toString('utf8', 0, length);
  }
}
