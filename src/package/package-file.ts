import { createHash } from 'node:crypto';
import type { Hash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';

import { StorageError, syncDirectory, writeWhole } from '../system/files/durable-file.ts';
import type { PayloadOpening, PayloadWriter, WrittenPayload, WrittenPrefix } from '../update/ports.ts';
import { PackageError } from './errors.ts';
import { hashOf } from './package-store.ts';
import type { PackageStore } from './package-store.ts';

/** Throws PackageError for a file that is not a package for this target. */
type CheckPackage = (path: string) => Promise<void>;

/**
 * Receives a package under another name. It gets its own name when it is complete, durable, and accepted by `check`.
 */
export async function openPackageFile(
  store: PackageStore,
  { resumeAt }: PayloadOpening,
  check: CheckPackage,
): Promise<PayloadWriter> {
  await store.make();
  const { incomingPath: path } = store;
  try {
    if (resumeAt === undefined)
      return new PackageFile({
        store,
        check,
        file: await store.fs.open(path, 'w+', 0o600),
        hash: createHash('sha256'),
        sizeBytes: 0,
      });
    return await resume(store, resumeAt, check);
  } catch (error) {
    throw error instanceof PackageError ? error : new StorageError('write', path, error);
  }
}

async function resume(store: PackageStore, prefix: WrittenPrefix, check: CheckPackage): Promise<PayloadWriter> {
  const found = await store.digestOf(store.incomingPath, prefix.sizeBytes);
  if (found?.digest !== prefix.digest || found.sizeBytes !== prefix.sizeBytes) {
    throw new PackageError('checkpoint-stale', 'the saved part of the package does not match the checkpoint');
  }
  await using opened = new AsyncDisposableStack();
  const file = opened.use(await store.fs.open(store.incomingPath, 'r+'));
  await file.truncate(prefix.sizeBytes);
  const { hash } = await hashOf(file, prefix.sizeBytes);
  opened.move();
  return new PackageFile({ store, check, file, hash, sizeBytes: prefix.sizeBytes });
}

interface FileParts {
  readonly store: PackageStore;
  readonly check: CheckPackage;
  readonly file: FileHandle;
  /** The number of bytes in the file that were hashed. */
  readonly hash: Hash;
  readonly sizeBytes: number;
}

class PackageFile implements PayloadWriter {
  readonly #store: PackageStore;
  readonly #check: CheckPackage;
  readonly #file: FileHandle;
  readonly #hash: Hash;
  #sizeBytes: number;
  #closed = false;

  constructor({ store, check, file, hash, sizeBytes }: FileParts) {
    this.#store = store;
    this.#check = check;
    this.#file = file;
    this.#hash = hash;
    this.#sizeBytes = sizeBytes;
  }

  async write(chunk: Uint8Array): Promise<void> {
    this.#hash.update(chunk);
    const at = this.#sizeBytes;
    this.#sizeBytes += chunk.byteLength;
    const copy = Buffer.from(chunk);
    await this.#guarded(async () => writeWhole(this.#file, copy, at, this.#store.incomingPath));
  }

  async checkpoint(): Promise<WrittenPrefix> {
    await this.#guarded(async () => {
      await this.#file.sync();
      await syncDirectory(this.#store.directory, this.#store.fs);
    });
    return { sizeBytes: this.#sizeBytes, digest: `sha256:${this.#hash.copy().digest('hex')}` };
  }

  async finish(): Promise<WrittenPayload> {
    const { incomingPath: path, directory, fs } = this.#store;
    const { digest, sizeBytes } = await this.checkpoint();
    if ((await this.#store.digestOf(path))?.digest !== digest)
      throw new PackageError('package-damaged', `${path} holds something else than was written`);
    try {
      await this.#check(path);
    } catch (error) {
      await fs.rm(path, { force: true });
      throw error;
    }
    await this.#guarded(async () => {
      await fs.rename(path, this.#store.pathOf(digest));
      await syncDirectory(directory, fs);
    });
    await this.#store.prune(digest);
    return { sizeBytes, digest, unchangedBytes: 0 };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#file.close();
  }

  async #guarded(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      throw error instanceof StorageError ? error : new StorageError('write', this.#store.incomingPath, error);
    }
  }
}
