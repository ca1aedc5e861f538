import { FirmwareError } from '../firmware/errors.ts';
import { describeError } from '../system/errors.ts';
import { readOutsideFile } from '../system/files/outside-file.ts';
import type { FirmwareSource } from '../update/ports.ts';
import { DaemonError } from './errors.ts';

/** A HEX file is more than twice as large as the bytes in it. */
const MAX_IMAGE_FILE_BYTES = 64 * 1024 * 1024;
/** Each piece costs memory of its own, however short it is. The agent sends 256 KiB at a time. */
const MAX_PIECES = 65_536;

/** The image for a board in a file that a person named. */
export async function readImageFile(path: string, signal: AbortSignal): Promise<Buffer> {
  try {
    return await readOutsideFile(path, { maxBytes: MAX_IMAGE_FILE_BYTES }, signal);
  } catch (error) {
    throw new FirmwareError('file-unreadable', `${path} cannot be read: ${describeError(error)}`, { cause: error });
  }
}

/** The same, from a source of its bytes. `name` is what errors call it. */
export async function readImageSource(source: FirmwareSource, name: string, signal: AbortSignal): Promise<Buffer> {
  await using transfer = await source.open(undefined, signal);
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of transfer.chunks) {
    sizeBytes += chunk.byteLength;
    if (sizeBytes > MAX_IMAGE_FILE_BYTES) throw unreadable(name, `it is longer than ${MAX_IMAGE_FILE_BYTES} bytes`);
    if (chunks.length === MAX_PIECES) throw unreadable(name, `it came in more than ${MAX_PIECES} pieces`);
    chunks.push(Buffer.from(chunk));
  }
  return Buffer.concat(chunks);
}

function unreadable(name: string, why: string): FirmwareError {
  return new FirmwareError('file-unreadable', `${name} cannot be read: ${why}`);
}

/** Throws `board-not-configured`. */
export function boardNamed<T>(name: string, boards: ReadonlyMap<string, T>): T {
  const found = boards.get(name);
  if (found !== undefined) return found;
  const known = [...boards.keys()].join(', ');
  const others = known === '' ? 'none is configured' : `there are: ${known}`;
  throw new DaemonError('board-not-configured', `there is no board ${name} (${others})`);
}
