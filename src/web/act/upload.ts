import { mkdir, open, rm, statfs } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';

import { describeError, systemErrorCode } from '../../system/errors.ts';
import { Refusal } from '../page-errors.ts';
import type { PageLimits } from '../page-limits.ts';

type FileLimits = Pick<PageLimits, 'fileIdleMs' | 'fileMs' | 'minFreeBytes'>;

const MAX_NAME_LENGTH = 100;

/** Receives a file from a browser and keeps it in the state directory until it is installed. One file at a time. */
export class Uploads {
  /**
   * The folders in use, by all pages of this process: a page that was restarted may find the file of its predecessor
   * still being installed.
   */
  static readonly #taken = new Set<string>();
  readonly #folder: string;
  readonly #limits: FileLimits;

  constructor(stateDirectory: string, limits: FileLimits) {
    this.#folder = join(stateDirectory, 'page');
    this.#limits = limits;
  }

  /** Removes the file that a killed daemon left. */
  async clear(): Promise<void> {
    if (!Uploads.#taken.has(this.#folder)) await this.#remove();
  }

  /** Receives the file, calls `work` with its path, and removes it afterwards. Throws Refusal. */
  async take(request: IncomingMessage, name: string, work: (path: string) => Promise<void>): Promise<void> {
    const taken = Uploads.#taken;
    if (taken.has(this.#folder)) throw new Refusal(409, 'Another file is being installed.');
    taken.add(this.#folder);
    try {
      const path = join(this.#folder, plainName(name));
      await this.#receive(request, path);
      await work(path);
    } catch (error) {
      if (systemErrorCode(error) === undefined) throw error;
      throw new Refusal(507, `The file cannot be kept: ${describeError(error)}`);
    } finally {
      await this.#remove();
      taken.delete(this.#folder);
    }
  }

  async #remove(): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true });
  }

  async #receive(request: IncomingMessage, path: string): Promise<void> {
    await this.#remove();
    await mkdir(this.#folder, { mode: 0o700 });
    const leftBytes = await this.#roomBytes();
    const tooLarge = (): Refusal =>
      new Refusal(413, `There is room for ${Math.floor(leftBytes / 1_048_576)} MiB, and this file is larger.`);
    if (Number(request.headers['content-length'] ?? 0) > leftBytes) throw tooLarge();
    const late = (): unknown => request.destroy(new Refusal(408, 'The file was not received in time.'));
    const whole = setTimeout(late, this.#limits.fileMs);
    const idle = setTimeout(late, this.#limits.fileIdleMs);
    try {
      await using file = await open(path, 'wx', 0o600);
      let size = 0;
      for await (const chunk of request as AsyncIterable<Buffer>) {
        idle.refresh();
        size += chunk.byteLength;
        if (size > leftBytes) throw tooLarge();
        await file.writeFile(chunk);
      }
    } finally {
      clearTimeout(whole);
      clearTimeout(idle);
    }
  }

  /** The bytes that the file may take. Journal and queue are on the same file system, so some are reserved for them. */
  async #roomBytes(): Promise<number> {
    const { bavail, bsize } = await statfs(this.#folder);
    return Math.max(0, bavail * bsize - this.#limits.minFreeBytes);
  }
}

/** A plain file name made of the browser's. The history names a release by it if the release does not name itself. */
export function plainName(name: string): string {
  const plain = name
    .replaceAll(/[^\w.+-]+/g, '-')
    .slice(-MAX_NAME_LENGTH)
    .replace(/^[.-]+/, '');
  return plain === '' ? 'file' : plain;
}
