import { readdir } from 'node:fs/promises';

import { describeError } from '../../system/errors.ts';
import { readOutsideFile } from '../../system/files/outside-file.ts';
import { sourceFailed } from './source.ts';

const MAX_BYTES = 64 * 1024;

/** The beginning of a file, which for a file of the kernel is all of it. Throws TelemetryError. */
export async function readKernelFile(path: string, signal: AbortSignal): Promise<string> {
  signal.throwIfAborted();
  try {
    return (await readOutsideFile(path, { maxBytes: MAX_BYTES, longer: 'cut' }, signal)).toString('utf8');
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
