import { readdir } from 'node:fs/promises';
import { join } from 'node:path';

import { AgentError, describeError } from '../../../system/errors.ts';
import { readOutsideFile } from '../../../system/files/outside-file.ts';
import { sourceFailed } from '../source.ts';

const MAX_BYTES = 64 * 1024;
const MAX_TOLD = 3;

/** The beginning of a file; of a kernel's file that is all. Throws TelemetryError. */
export async function readKernelFile(path: string, signal: AbortSignal): Promise<string> {
  signal.throwIfAborted();
  try {
    return (await readOutsideFile(path, { maxBytes: MAX_BYTES, longer: 'cut' }, signal)).toString('utf8');
  } catch (error) {
    signal.throwIfAborted();
    throw sourceFailed(path, describeError(error), error);
  }
}

/** The text of a file without surrounding white space; undefined: it cannot be read. */
export async function readKernelText(path: string, signal: AbortSignal): Promise<string | undefined> {
  try {
    return (await readKernelFile(path, signal)).trim();
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof AgentError) return undefined;
    throw error;
  }
}

/** The number in a file that holds one, perhaps followed by words. */
export async function readKernelNumber(path: string, signal: AbortSignal): Promise<number> {
  const text = await readKernelFile(path, signal);
  const number = Number.parseFloat(text);
  if (!Number.isFinite(number)) throw sourceFailed(path, `“${text.trim().slice(0, 40)}” is not a number`);
  return number;
}

/** The names in a directory, sorted; empty if there is no such directory. */
export async function listDirectory(path: string): Promise<readonly string[]> {
  try {
    return (await readdir(path)).sort();
  } catch (error) {
    if (error instanceof Error) return [];
    throw error;
  }
}

/** A device among others, recognized by the content of a file. */
export interface WantedDevice {
  /** The folder that contains the folders of all devices. */
  readonly base: string;
  /** The file within the folder of each device. */
  readonly file: string;
  /** The name of the device in the error. */
  readonly title: string;
  /** `says` is the content of the file; undefined: it is missing or cannot be read. */
  readonly isIt: (says: string | undefined, folder: string) => boolean;
}

/**
 * The folder of the first device that is wanted. A device that cannot be read does not hide later ones; if none is
 * found, the error names what could not be read.
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
