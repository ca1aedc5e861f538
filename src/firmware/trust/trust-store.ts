import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';

import { ownFs, readDurableTextFile, replaceFileDurably } from '../../system/files/durable-file.ts';
import type { DurableFs } from '../../system/files/durable-file.ts';
import { FirmwareError, VerificationError } from '../errors.ts';
import { fromFile, joinRevoked, parseKeptListFile } from './trust-list.ts';
import type { KeptListFile, TrustList, TrustListFile } from './trust-list.ts';

/** The last list, and the artifact that brought it. */
export interface KeptList extends TrustList {
  readonly artifact: string | undefined;
}

/** Keeps the last list of keys and revocations, outside the slots, in a file of its own: older agents leave it alone. */
export class TrustStore {
  readonly #path: string;
  /** A file that is gone looks as if no list had ever been taken. */
  readonly #copyPath: string;
  readonly #fs: DurableFs;

  constructor(stateDirectory: string, fs: DurableFs = ownFs) {
    this.#path = join(stateDirectory, 'trust.json');
    this.#copyPath = join(stateDirectory, 'trust-copy.json');
    this.#fs = fs;
  }

  /** Undefined: none was ever taken. Throws `trust-list-damaged`, or StorageError. */
  async read(): Promise<KeptList | undefined> {
    const kept = await this.#readFile();
    return kept === undefined ? undefined : { ...fromFile(kept), artifact: kept.artifact };
  }

  /**
   * Keeps what is durable when this returns. A list with a lower number than the last one is refused, and so is another one
   * with the same; the same one again changes nothing. A damaged file is replaced.
   */
  async take(file: TrustListFile, artifact?: string): Promise<'taken' | 'known'> {
    const before = await this.#readFile().catch((error: unknown) => {
      if (error instanceof FirmwareError) return undefined;
      throw error;
    });
    const kept = { ...file, revoked: joinRevoked(before?.revoked, fromFile(file)), artifact };
    if (before !== undefined && file.number <= before.number) {
      if (file.number === before.number && isDeepStrictEqual({ ...kept, artifact }, { ...before, artifact }))
        return 'known';
      throw new VerificationError(
        'trust-list-old',
        `list ${file.number} of keys and revocations is not newer than list ${before.number}, which was taken before`,
      );
    }
    for (const path of [this.#copyPath, this.#path])
      await replaceFileDurably(path, `${JSON.stringify(kept)}\n`, this.#fs);
    return 'taken';
  }

  async #readFile(): Promise<KeptListFile | undefined> {
    const text =
      (await readDurableTextFile(this.#path, this.#fs)) ?? (await readDurableTextFile(this.#copyPath, this.#fs));
    if (text === undefined) return undefined;
    try {
      const kept = parseKeptListFile(Buffer.from(text));
      fromFile(kept);
      return kept;
    } catch (error) {
      if (!(error instanceof VerificationError)) throw error;
      throw new FirmwareError('trust-list-damaged', `${this.#path} cannot be understood: ${error.message}`, {
        cause: error,
      });
    }
  }
}
