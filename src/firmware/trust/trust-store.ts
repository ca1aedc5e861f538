import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';

import { ownFs, readDurableTextFile, replaceFileDurably, StorageError } from '../../system/files/durable-file.ts';
import type { DurableFs } from '../../system/files/durable-file.ts';
import { FirmwareError, VerificationError } from '../errors.ts';
import { fromFile, joinRevoked, parseKeptListFile } from './trust-list.ts';
import type { KeptListFile, TrustList, TrustListFile } from './trust-list.ts';

/** The last list, and the artifact that brought it. */
export interface KeptList extends TrustList {
  readonly artifact: string | undefined;
}

interface Judged {
  readonly kept: Omit<KeptListFile, 'revoked'> & Pick<TrustList, 'revoked'>;
  readonly isKnown: boolean;
}

/** Reads the text of a state file; undefined: there is none. */
export type ReadStateText = (path: string, fs: DurableFs) => Promise<string | undefined>;

/**
 * Keeps the last list of keys and revocations in the state directory. It has a file of its own, which older agents
 * leave alone.
 */
export class TrustStore {
  readonly #path: string;
  /** A second copy: without it, a lost file would look as if no list had ever been taken. */
  readonly #copyPath: string;
  readonly #fs: DurableFs;
  readonly #readText: ReadStateText;

  constructor(stateDirectory: string, fs: DurableFs = ownFs, readText: ReadStateText = readDurableTextFile) {
    this.#path = join(stateDirectory, 'trust.json');
    this.#copyPath = join(stateDirectory, 'trust-copy.json');
    this.#fs = fs;
    this.#readText = readText;
  }

  /** The last list; undefined: none was ever taken. Throws `trust-list-damaged`, or StorageError. */
  async read(): Promise<KeptList | undefined> {
    return keptListOf(await this.#readFile());
  }

  /**
   * The last list as far as it is known, even if its file is damaged or cannot be read: new lists are compared with it.
   * Throws StorageError if its copy cannot be read, either.
   */
  async lastKnown(): Promise<KeptList | undefined> {
    return keptListOf((await this.#readLastKnown()).file);
  }

  /**
   * Promise `revocation`: keeps a list, which is durable when this returns. Refuses a list with a lower number than the
   * last one, and a different one with the same number. The same list again changes nothing. Replaces a damaged file.
   */
  async take(file: TrustListFile, artifact?: string): Promise<'taken' | 'known'> {
    const { kept, isKnown } = await this.judge(file, artifact);
    if (isKnown) return 'known';
    for (const path of [this.#copyPath, this.#path])
      await replaceFileDurably(path, `${JSON.stringify(kept)}\n`, this.#fs);
    return 'taken';
  }

  /** Decides what `take` would keep or refuse; writes nothing. */
  async judge(file: TrustListFile, artifact?: string): Promise<Judged> {
    const { file: before, isDamaged } = await this.#readLastKnown();
    const kept = { ...file, revoked: joinRevoked(before?.revoked, fromFile(file)), artifact };
    const isSame = file.number === before?.number && isDeepStrictEqual({ ...kept, artifact }, { ...before, artifact });
    if (isSame && !isDamaged) return { kept, isKnown: true };
    if (before !== undefined && file.number <= before.number && !isSame) {
      throw new VerificationError(
        'trust-list-old',
        `list ${file.number} of keys and revocations is not newer than list ${before.number}, which was taken before`,
      );
    }
    return { kept, isKnown: false };
  }

  async #readFile(): Promise<KeptListFile | undefined> {
    return (await this.#readAt(this.#path)) ?? (await this.#readAt(this.#copyPath));
  }

  async #readLastKnown(): Promise<{ readonly file: KeptListFile | undefined; readonly isDamaged: boolean }> {
    const file = await this.#readFile().catch(whereUnusable);
    if (file !== 'damaged') return { file, isDamaged: false };
    const copy = await this.#readAt(this.#copyPath).catch(whereDamaged);
    return { file: copy === 'damaged' ? undefined : copy, isDamaged: true };
  }

  async #readAt(path: string): Promise<KeptListFile | undefined> {
    const text = await this.#readText(path, this.#fs);
    if (text === undefined) return undefined;
    try {
      const kept = parseKeptListFile(Buffer.from(text));
      fromFile(kept);
      return kept;
    } catch (error) {
      if (!(error instanceof VerificationError)) throw error;
      throw new FirmwareError('trust-list-damaged', `${path} cannot be understood: ${error.message}`, {
        cause: error,
      });
    }
  }
}

function keptListOf(file: KeptListFile | undefined): KeptList | undefined {
  return file && { ...fromFile(file), artifact: file.artifact };
}

function whereUnusable(error: unknown): 'damaged' {
  return error instanceof StorageError ? 'damaged' : whereDamaged(error);
}

function whereDamaged(error: unknown): 'damaged' {
  if (error instanceof FirmwareError) return 'damaged';
  throw error;
}
