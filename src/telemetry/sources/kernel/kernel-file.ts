import { readdir } from 'node:fs/promises';

import { AgentError, describeError, mapError, valueOrUndefined } from '../../../system/errors.ts';
import { readUntrustedFile } from '../../../system/files/untrusted-file.ts';
import { sourceFailed } from '../source.ts';

const MAX_BYTES = 64 * 1024;

/** Returns the text of a file of at most 64 KiB. Throws TelemetryError. */
export async function readKernelFile(path: string, signal: AbortSignal): Promise<string> {
  signal.throwIfAborted();
  const bytes = await mapError(readUntrustedFile(path, { maxBytes: MAX_BYTES }, signal), (error) =>
    signal.aborted ? signal.reason : sourceFailed(path, describeError(error), error),
  );
  return bytes.toString('utf8');
}

/** Returns the text of a file without surrounding white space, or undefined if it cannot be read. */
export async function readKernelText(path: string, signal: AbortSignal): Promise<string | undefined> {
  try {
    return (await readKernelFile(path, signal)).trim();
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof AgentError) return undefined;
    throw error;
  }
}

/** Returns the number in a file that holds a single number. Throws TelemetryError. */
export async function readKernelNumber(path: string, signal: AbortSignal): Promise<number> {
  return kernelNumber(path, (await readKernelFile(path, signal)).trim());
}

/** Returns the first number in a file that holds several, such as /proc/loadavg. Throws TelemetryError. */
export async function readFirstNumber(path: string, signal: AbortSignal): Promise<number> {
  return kernelNumber(path, (await readKernelFile(path, signal)).split(' ')[0] ?? '');
}

function kernelNumber(path: string, text: string): number {
  const number = /^[+-]?\d/.test(text) ? Number(text) : Number.NaN;
  if (!Number.isFinite(number)) throw sourceFailed(path, `“${text.slice(0, 40)}” is not a number`);
  return number;
}

/** The names in a directory, sorted; empty if there is no such directory. */
export async function listDirectory(path: string): Promise<readonly string[]> {
  return (await valueOrUndefined(readdir(path)))?.sort() ?? [];
}
