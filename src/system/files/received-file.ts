import { createHash } from 'node:crypto';
import type { Hash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';

import { StorageError, syncDirectory, writeWhole } from './durable-file.ts';
import type { DurableFs } from './durable-file.ts';

const CHUNK_BYTES = 1024 * 1024;

/** The first bytes of a file: their hash, to which more can be added, and their number. */
export interface HashedBytes {
  readonly hash: Hash;
  readonly sizeBytes: number;
}

/** Hashes the first bytes of a file, or all if there are fewer. */
export async function hashOf(file: FileHandle, mostBytes: number): Promise<HashedBytes> {
  const hash = createHash('sha256');
  const chunk = Buffer.alloc(CHUNK_BYTES);
  let sizeBytes = 0;
  while (sizeBytes < mostBytes) {
    const wanted = Math.min(chunk.byteLength, mostBytes - sizeBytes);
    const { bytesRead } = await file.read(chunk, 0, wanted, sizeBytes);
    if (bytesRead === 0) break;
    hash.update(chunk.subarray(0, bytesRead));
    sizeBytes += bytesRead;
  }
  return { hash, sizeBytes };
}

/** Returns `sha256:` and the hex digest. More can be added to the hash afterwards. */
export function digestIn(hash: Hash): string {
  return `sha256:${hash.copy().digest('hex')}`;
}

/** A file that is received in order under a name of its own, before it gets its final name. Throws StorageError. */
export class ReceivedFile implements AsyncDisposable {
  protected readonly file: FileHandle;
  protected readonly path: string;
  protected sizeBytes: number;
  readonly #fs: DurableFs;
  readonly #hash: Hash;
  #closed = false;

  constructor(
    file: FileHandle,
    path: string,
    fs: DurableFs,
    { hash, sizeBytes }: HashedBytes = { hash: createHash('sha256'), sizeBytes: 0 },
  ) {
    this.file = file;
    this.path = path;
    this.#fs = fs;
    this.#hash = hash;
    this.sizeBytes = sizeBytes;
  }

  async write(chunk: Uint8Array): Promise<void> {
    this.#hash.update(chunk);
    const at = this.sizeBytes;
    this.sizeBytes += chunk.byteLength;
    const copy = Buffer.from(chunk);
    await this.guarded(async () => writeWhole(this.file, copy, at, this.path));
  }

  /** Makes the bytes so far durable. */
  async checkpoint(): Promise<{ readonly sizeBytes: number; readonly digest: string }> {
    await this.guarded(async () => {
      await this.file.sync();
      await syncDirectory(dirname(this.path), this.#fs);
    });
    return { sizeBytes: this.sizeBytes, digest: digestIn(this.#hash) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.file.close();
  }

  /** Gives the file its final name, in the same directory. */
  protected async rename(path: string): Promise<void> {
    await this.guarded(async () => {
      await this.#fs.rename(this.path, path);
      await syncDirectory(dirname(path), this.#fs);
    });
  }

  protected async guarded<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw error instanceof StorageError ? error : new StorageError('write', this.path, error);
    }
  }
}
