import type { FileHandle } from 'node:fs/promises';

import { undefinedIfMissing } from '../system/errors.ts';
import { StorageError } from '../system/files/durable-file.ts';
import { digestIn, hashOf, ReceivedFile } from '../system/files/received-file.ts';
import type { HashedBytes } from '../system/files/received-file.ts';
import type { PayloadOpening, PayloadWriter, WrittenPayload, WrittenPrefix } from '../update/ports.ts';
import { PackageError } from './errors.ts';
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
  const { incomingPath: path, fs } = store;
  try {
    if (resumeAt === undefined) return new PackageFile(store, check, await fs.open(path, 'w+', 0o600));
    return await resume(store, resumeAt, check);
  } catch (error) {
    throw error instanceof PackageError ? error : new StorageError('write', path, error);
  }
}

async function resume(store: PackageStore, prefix: WrittenPrefix, check: CheckPackage): Promise<PayloadWriter> {
  await using opened = new AsyncDisposableStack();
  const file = opened.use(await undefinedIfMissing(store.fs.open(store.incomingPath, 'r+')));
  const seen = file && (await hashOf(file, prefix.sizeBytes));
  if (file === undefined || seen?.sizeBytes !== prefix.sizeBytes || digestIn(seen.hash) !== prefix.digest)
    throw new PackageError('checkpoint-stale', 'the saved part of the package does not match the checkpoint');
  await file.truncate(prefix.sizeBytes);
  opened.move();
  return new PackageFile(store, check, file, seen);
}

class PackageFile extends ReceivedFile implements PayloadWriter {
  readonly #store: PackageStore;
  readonly #check: CheckPackage;

  constructor(store: PackageStore, check: CheckPackage, file: FileHandle, seen?: HashedBytes) {
    super(file, store.incomingPath, store.fs, seen);
    this.#store = store;
    this.#check = check;
  }

  async finish(): Promise<WrittenPayload> {
    const { digest, sizeBytes } = await this.checkpoint();
    if ((await this.#store.digestOf(this.path)) !== digest)
      throw new PackageError('package-damaged', `${this.path} holds something else than was written`);
    try {
      await this.#check(this.path);
    } catch (error) {
      await this.#store.fs.rm(this.path, { force: true });
      throw error;
    }
    await this.rename(this.#store.pathOf(digest));
    await this.#store.prune(digest);
    return { sizeBytes, digest, unchangedBytes: 0 };
  }
}
