import { FirmwareError } from '../firmware/errors.ts';
import { describeError } from '../system/errors.ts';
import { readOutsideFile } from '../system/files/outside-file.ts';
import { DaemonError } from './errors.ts';

/** A HEX file is more than twice as large as the bytes in it. */
const MAX_IMAGE_FILE_BYTES = 64 * 1024 * 1024;

/** The image for a board in a file that a person named. */
export async function readImageFile(path: string, signal: AbortSignal): Promise<Buffer> {
  try {
    return await readOutsideFile(path, { maxBytes: MAX_IMAGE_FILE_BYTES }, signal);
  } catch (error) {
    throw new FirmwareError('file-unreadable', `${path} cannot be read: ${describeError(error)}`, { cause: error });
  }
}

/** Throws `board-not-configured`. */
export function boardNamed<T>(name: string, boards: ReadonlyMap<string, T>): T {
  const found = boards.get(name);
  if (found !== undefined) return found;
  const known = [...boards.keys()].join(', ');
  const others = known === '' ? 'none is configured' : `there are: ${known}`;
  throw new DaemonError('board-not-configured', `there is no board ${name} (${others})`);
}
