import { FirmwareError } from '../firmware/errors.ts';
import { readWhole } from '../system/files/opened-file.ts';
import type { FileContent } from '../system/files/opened-file.ts';
import { DaemonError } from './errors.ts';

/** A HEX file is more than twice as large as the bytes in it. */
const MAX_IMAGE_FILE_BYTES = 64 * 1024 * 1024;

/** A file, and where its sender has it. */
export interface NamedFile {
  readonly path: string;
  readonly file: FileContent;
}

/** The bytes of an image for a board. */
export async function readImage({ path, file }: NamedFile, signal: AbortSignal): Promise<Buffer> {
  const bytes = await readWhole(file, MAX_IMAGE_FILE_BYTES, signal);
  if (bytes !== undefined) return bytes;
  const why = `it is longer than ${MAX_IMAGE_FILE_BYTES} bytes`;
  throw new FirmwareError('file-unreadable', `${path} cannot be read: ${why}`);
}

/** Throws `board-not-configured`. */
export function boardNamed<T>(name: string, boards: ReadonlyMap<string, T>): T {
  const found = boards.get(name);
  if (found !== undefined) return found;
  const known = [...boards.keys()].join(', ');
  const others = known === '' ? 'none is configured' : `there are: ${known}`;
  throw new DaemonError('board-not-configured', `there is no board ${name} (${others})`);
}
