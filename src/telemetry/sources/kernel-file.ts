import { readdir } from 'node:fs/promises';
import { join } from 'node:path';

import { AgentError, describeError } from '../../system/errors.ts';
import { readOutsideFile } from '../../system/files/outside-file.ts';
import { sourceFailed } from './source.ts';

const MAX_BYTES = 64 * 1024;
const MAX_TOLD = 3;

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

/** Its text without the white space around it; undefined: it cannot be read. */
export async function readKernelText(path: string, signal: AbortSignal): Promise<string | undefined> {
  try {
    return (await readKernelFile(path, signal)).trim();
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof AgentError) return undefined;
    throw error;
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

/** A device among others, which says in a file who it is. */
export interface WantedDevice {
  /** The folder of all of them. */
  readonly base: string;
  /** In the folder of each. */
  readonly file: string;
  /** What the error calls it. */
  readonly title: string;
  /** `says`: undefined where there is no such file, or where it cannot be read. */
  readonly isIt: (says: string | undefined, folder: string) => boolean;
}

/**
 * The folder of the first one that is wanted. One that cannot be read hides none behind it; if what is wanted is not found,
 * the error names what could not be read.
 */
export async function findDevice({ base, file, title, isIt }: WantedDevice, signal: AbortSignal): Promise<string> {
  const unread: string[] = [];
  for (const folder of await listDirectory(base)) {
    const directory = join(base, folder);
    const isThere = (await listDirectory(directory)).includes(file);
    const says = isThere ? await readOrNote(join(directory, file), unread, signal) : undefined;
    if (isIt(says, folder)) return directory;
  }
  const more = unread.length > MAX_TOLD ? `, and ${unread.length - MAX_TOLD} more` : '';
  const missed =
    unread.length === 0 ? '' : ` among those that can be read: ${unread.slice(0, MAX_TOLD).join(', ')}${more}`;
  throw sourceFailed(base, `there is no ${title}${missed}`);
}

async function readOrNote(path: string, unread: string[], signal: AbortSignal): Promise<string | undefined> {
  try {
    return (await readKernelFile(path, signal)).trim();
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof AgentError)) throw error;
    unread.push(error.message);
    return undefined;
  }
}
