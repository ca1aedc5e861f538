import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';

import { nodeFs, readDurableTextFile, replaceFileDurably, StorageError } from '../../system/files/durable-file.ts';
import type { DurableFs } from '../../system/files/durable-file.ts';
import { FirmwareError, VerificationError } from '../errors.ts';
import { fromFile, joinRevoked, parseKeptListFile } from './trust-list.ts';
import type { KeptListFile, TrustList, TrustListFile } from './trust-list.ts';

/** The artifact that brought a list. */
export interface ListOrigin {
  /** The digest of its manifest. */
  readonly artifact?: string | undefined;
  /** The fingerprint of the key that signed it. */
  readonly signedBy?: string | undefined;
}

/** The last list, and the artifact that brought it. */
export interface StoredTrustList extends TrustList {
  readonly artifact: string | undefined;
}

interface EvaluatedList {
  readonly kept: Omit<KeptListFile, 'revoked'> & Pick<TrustList, 'revoked'>;
  readonly isKnown: boolean;
}

/**
 * Keeps the last trust list in the state directory. It has files of its own, which an older agent in the other slot
 * leaves alone.
 */
export class TrustStore {
  readonly #path: string;
  /** Counts where the file is gone, since a lost file looks as if no list had ever been taken. */
  readonly #copyPath: string;
  /** The list without its keys. Where both other files are lost, the next list is compared with it. */
  readonly #revokedPath: string;
  readonly #fs: DurableFs;

  constructor(stateDirectory: string, fs: DurableFs = nodeFs) {
    this.#path = join(stateDirectory, 'trust.json');
    this.#copyPath = join(stateDirectory, 'trust-copy.json');
    this.#revokedPath = join(stateDirectory, 'trust-revoked.json');
    this.#fs = fs;
  }

  /**
   * Returns the last trust list, or undefined if none was ever accepted. Throws `trust-list-damaged`, or StorageError.
   */
  async read(): Promise<StoredTrustList | undefined> {
    return keptListOf(await this.#readFile());
  }

  /**
   * The last list as far as it is known, even if its file is damaged or cannot be read: new lists are compared with it.
   * It has no keys if the copy is lost, too. Throws StorageError if none of its files can be read.
   */
  async lastKnown(): Promise<StoredTrustList | undefined> {
    return keptListOf((await this.#readLastKnown()).file);
  }

  /**
   * Guarantee `revocation`: keeps a list, which is durable when this returns. Refuses a list with a lower number than the
   * last one, and a different one with the same number, unless it revokes the key that signed the last one: a thief of
   * that key may have used the highest number. The same list again changes nothing, but replaces a damaged or missing
   * file.
   */
  async take(file: TrustListFile, origin?: ListOrigin): Promise<'taken' | 'known'> {
    const { kept, isKnown } = await this.evaluate(file, origin);
    if (isKnown) return 'known';
    const revocations = { ...kept, keys: [] };
    await replaceFileDurably(this.#copyPath, `${JSON.stringify(kept)}\n`, this.#fs);
    await replaceFileDurably(this.#revokedPath, `${JSON.stringify(revocations)}\n`, this.#fs);
    await replaceFileDurably(this.#path, `${JSON.stringify(kept)}\n`, this.#fs);
    return 'taken';
  }

  /** Decides what `take` would keep or refuse; writes nothing. */
  async evaluate(file: TrustListFile, { artifact, signedBy }: ListOrigin = {}): Promise<EvaluatedList> {
    const { file: before, isWhole } = await this.#readLastKnown();
    const revoked = joinRevoked(before?.revoked, fromFile(file));
    const numbers = { ...before?.numbers, ...(signedBy !== undefined && { [signedBy]: file.number }) };
    const kept = { ...file, revoked, artifact, signed_by: signedBy, numbers };
    const isSame = before !== undefined && isSameList(kept, before);
    if (isSame && isWhole) return { kept, isKnown: true };
    if (before !== undefined && !isSame && !mayFollow(file, signedBy, before)) {
      throw new VerificationError(
        'trust-list-old',
        `trust list ${file.number} is not newer than trust list ${before.number}, which took effect before`,
      );
    }
    return { kept, isKnown: false };
  }

  async #readFile(): Promise<KeptListFile | undefined> {
    const found = (await this.#readAt(this.#path)) ?? (await this.#readAt(this.#copyPath));
    if (found === undefined && (await this.#readAt(this.#revokedPath)) !== undefined)
      throw new FirmwareError('trust-list-damaged', `${this.#path} is missing`);
    return found;
  }

  /** The first file that can be read. `isWhole`: it is not a copy. */
  async #readLastKnown(): Promise<{ readonly file: KeptListFile | undefined; readonly isWhole: boolean }> {
    let unreadable: StorageError | undefined;
    for (const path of [this.#path, this.#copyPath, this.#revokedPath]) {
      const found = await this.#readAt(path).catch(whereUnusable);
      if (found instanceof StorageError) unreadable = found;
      else if (found !== 'damaged' && found !== undefined) return { file: found, isWhole: path === this.#path };
    }
    if (unreadable !== undefined) throw unreadable;
    return { file: undefined, isWhole: true };
  }

  async #readAt(path: string): Promise<KeptListFile | undefined> {
    const text = await readDurableTextFile(path, this.#fs);
    if (text === undefined) return undefined;
    try {
      const kept = parseKeptListFile(Buffer.from(text));
      fromFile(kept);
      return kept;
    } catch (error) {
      if (!(error instanceof VerificationError)) throw error;
      throw new FirmwareError('trust-list-damaged', `${path} is malformed: ${error.message}`, {
        cause: error,
      });
    }
  }
}

function isSameList(list: EvaluatedList['kept'], before: KeptListFile): boolean {
  const { number, artifact, signed_by, numbers } = list;
  if (number !== before.number) return false;
  const isSameArtifact = artifact !== undefined && artifact === before.artifact;
  return isSameArtifact || isDeepStrictEqual(list, { ...before, artifact, signed_by, numbers });
}

/**
 * True if the list is newer than all lists of its signer, and is newer than the last list or itself revokes the key that
 * signed it. A revocation by an earlier list is not enough: where the last list revoked its own signer, older lists of
 * other signers would follow.
 */
function mayFollow({ number, revoked }: TrustListFile, signer: string | undefined, before: KeptListFile): boolean {
  const isLast = number > (before.numbers?.[signer ?? ''] ?? 0);
  return isLast && (number > before.number || revoked.keys.includes(before.signed_by ?? ''));
}

function keptListOf(file: KeptListFile | undefined): StoredTrustList | undefined {
  return file && { ...fromFile(file), artifact: file.artifact };
}

function whereUnusable(error: unknown): 'damaged' | StorageError {
  if (error instanceof StorageError) return error;
  if (error instanceof FirmwareError) return 'damaged';
  throw error;
}
