import type { FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';

import { systemErrorCode } from '../../system/errors.ts';
import { draftOf, openDraft, nodeFs, StorageError } from '../../system/files/durable-file.ts';
import { ReceivedFile } from '../../system/files/received-file.ts';
import type { ImageClaims, PayloadOpening, PayloadWriter, WrittenPayload, WrittenPrefix } from '../../update/ports.ts';
import { McuError } from '../errors.ts';
import { maxImageBytes } from '../images/image.ts';
import { makeFolder, payloadDigest } from './board-store.ts';
import type { BoardFs } from './board-store.ts';

/** A HEX file is more than twice as large as the bytes in it. */
export const maxPayloadBytes = 4 * maxImageBytes;

/** Throws a McuError for bytes that are not an image. */
type CheckImage = (bytes: Uint8Array) => Promise<ImageClaims>;

/**
 * Receives a payload under another name. It gets its own name when it is complete, durable, and accepted by `check`.
 * Throws McuError for a payload that is not an image, and StorageError for the disk.
 */
export async function openPayloadFile(
  path: string,
  opening: PayloadOpening,
  check: CheckImage,
  fs: BoardFs = nodeFs,
): Promise<PayloadWriter> {
  const { sizeBytes, resumeAt } = opening;
  refuseTooLarge(sizeBytes ?? 0);
  const prefix = resumeAt === undefined ? undefined : await findPrefix([draftOf(path), path], resumeAt, fs);
  await using opened = new AsyncDisposableStack();
  const payload = opened.use(await create({ path, check, fs }));
  if (prefix !== undefined) await payload.write(prefix);
  opened.move();
  return payload;
}

async function create(keeping: Keeping): Promise<PayloadFile> {
  const { path, fs } = keeping;
  try {
    await makeFolder(dirname(path), fs);
    return new PayloadFile(keeping, await openDraft(path, { fs, flags: 'w+' }));
  } catch (error) {
    throw new StorageError('write', path, error);
  }
}

/** Finds what an earlier transfer has brought: the durable part of it, or all of it under its final name. */
async function findPrefix(paths: readonly string[], prefix: WrittenPrefix, fs: BoardFs): Promise<Buffer> {
  refuseTooLarge(prefix.sizeBytes);
  for (const path of paths) {
    const bytes = await readPrefix(path, prefix.sizeBytes, fs);
    if (bytes !== undefined && payloadDigest(bytes) === prefix.digest) return bytes;
  }
  throw new McuError('payload-stale', 'the saved part of the payload does not match the checkpoint');
}

async function readPrefix(path: string, sizeBytes: number, fs: BoardFs): Promise<Buffer | undefined> {
  try {
    await using file = await fs.open(path, 'r');
    return await readWhole(file, sizeBytes);
  } catch (error) {
    if (['ENOENT', 'EISDIR'].includes(systemErrorCode(error) ?? '')) return undefined;
    throw new StorageError('read', path, error);
  }
}

interface Keeping {
  readonly path: string;
  readonly check: CheckImage;
  readonly fs: BoardFs;
}

class PayloadFile extends ReceivedFile implements PayloadWriter {
  readonly #path: string;
  readonly #check: CheckImage;

  constructor({ path, check, fs }: Keeping, file: FileHandle) {
    super(file, draftOf(path), fs);
    this.#path = path;
    this.#check = check;
  }

  override async write(chunk: Uint8Array): Promise<void> {
    refuseTooLarge(this.sizeBytes + chunk.byteLength);
    await super.write(chunk);
  }

  async finish(): Promise<WrittenPayload> {
    const { digest, sizeBytes } = await this.checkpoint();
    const bytes = await this.guarded(async () => readWhole(this.file, sizeBytes));
    if (payloadDigest(bytes) !== digest) throw new McuError('payload-damaged', `${this.#path} holds something else`);
    const claims = await this.#check(bytes);
    await this.rename(this.#path);
    return { sizeBytes, digest, unchangedBytes: 0, ...claims };
  }
}

async function readWhole(file: FileHandle, sizeBytes: number): Promise<Buffer> {
  const bytes = Buffer.alloc(sizeBytes);
  for (let done = 0; done < sizeBytes;) {
    const { bytesRead } = await file.read(bytes, done, sizeBytes - done, done);
    if (bytesRead === 0) return bytes.subarray(0, done);
    done += bytesRead;
  }
  return bytes;
}

export function refuseTooLarge(sizeBytes: number): void {
  if (sizeBytes <= maxPayloadBytes) return;
  throw new McuError('image-too-large', `${sizeBytes} bytes, more than the ${maxPayloadBytes} that a payload may have`);
}
