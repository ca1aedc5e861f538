import { constants, ftruncateSync, readSync, writeSync } from 'node:fs';
import { open, statfs } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { systemErrorCode } from '../../system/errors.ts';
import { HelperError } from '../errors.ts';

/** Where the helper wants the next bytes of a firmware, and how many at most. */
export interface TrayPlace {
  readonly at: number;
  readonly sizeBytes: number;
}

/** A transfer has two places of this size, which take turns. */
export const PLACE_BYTES = 2 * 1024 * 1024;
/** The helper copies so much at a time, so that it is still in the processor's cache when it is decoded. */
const COPIED_BYTES = 256 * 1024;
/** The type of a tmpfs in statfs(2). */
const TMPFS = 0x01021994;

/**
 * The tray: a file in memory in which the agent lays a firmware, and from which the helper copies it, at a fraction of
 * what messages cost. It lies beside the helper's socket, where only root makes files, and is the agent's to write.
 */
export function trayBeside(socket: string): string {
  return join(dirname(socket), 'tray');
}

/** The agent's end. */
export class Tray {
  readonly #path: string;
  #users = 0;

  constructor(path: string) {
    this.#path = path;
  }

  /** Opens it for one transfer; undefined: there is none, or not in memory. The last transfer leaves it empty. */
  async open(): Promise<OpenTray | undefined> {
    const file = await opened(this.#path, constants.O_WRONLY);
    if (file === undefined) return undefined;
    if ((await statfs(this.#path)).type !== TMPFS) {
      await file.close();
      return undefined;
    }
    this.#users += 1;
    return new OpenTray(file, () => {
      this.#users -= 1;
      if (this.#users === 0) ftruncateSync(file.fd);
    });
  }
}

/** Its `fd` is -1, with which every call fails, once it is closed. */
export class OpenTray implements AsyncDisposable {
  readonly #file: FileHandle;
  readonly #leave: () => void;
  readonly #ready = new Set<number>();

  constructor(file: FileHandle, leave: () => void) {
    this.#file = file;
    this.#leave = leave;
  }

  /** Takes the memory for a place, so that laying bytes there cannot fail later; false: there is not enough. */
  takesRoom({ at, sizeBytes }: TrayPlace): boolean {
    if (this.#ready.has(at)) return true;
    try {
      this.lay(Buffer.alloc(sizeBytes), at);
    } catch (error) {
      if (systemErrorCode(error) === undefined) throw error;
      return false;
    }
    this.#ready.add(at);
    return true;
  }

  lay(bytes: Uint8Array, at: number): void {
    for (let done = 0; done < bytes.byteLength;)
      done += writeSync(this.#file.fd, bytes, done, bytes.byteLength - done, at + done);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#leave();
    await this.#file.close();
  }
}

/** The helper's end. What lies there is trusted no more than a message: it is copied once, and only the copy is used. */
export class TrayReader {
  readonly #path: string;
  #nextAt = 0;

  constructor(path: string) {
    this.#path = path;
  }

  /** Opens it for one transfer, with places that no other one had; undefined: there is none. */
  async open(): Promise<TrayReading | undefined> {
    const file = await opened(this.#path, constants.O_RDONLY);
    if (file === undefined) return undefined;
    const at = this.#nextAt;
    this.#nextAt += 2 * PLACE_BYTES;
    return new TrayReading(file, at);
  }
}

export class TrayReading implements AsyncDisposable {
  readonly #file: FileHandle;
  readonly #at: number;
  // a byte more than is ever filled: who gives back the memory of a piece at the end of its buffer does not take this one
  readonly #copy = Buffer.allocUnsafeSlow(COPIED_BYTES + 1);
  #turn = 0;

  constructor(file: FileHandle, at: number) {
    this.#file = file;
    this.#at = at;
  }

  /** Not the place of the bytes before, which are still read. */
  nextPlace(): TrayPlace {
    this.#turn = 1 - this.#turn;
    return { at: this.#at + this.#turn * PLACE_BYTES, sizeBytes: PLACE_BYTES };
  }

  /** Copies of what lies there, each valid until the next one. Throws `link-malformed` if the agent took it away. */
  *read({ at }: TrayPlace, laidBytes: number): Generator<Uint8Array, void, undefined> {
    for (let done = 0; done < laidBytes;) {
      const copiedBytes = readSync(this.#file.fd, this.#copy, 0, Math.min(COPIED_BYTES, laidBytes - done), at + done);
      if (copiedBytes === 0) throw new HelperError('link-malformed', 'what was laid into the tray is not there');
      done += copiedBytes;
      yield this.#copy.subarray(0, copiedBytes);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#file.close();
  }
}

/** Undefined: there is no such file, or it is not for us. */
async function opened(path: string, how: number): Promise<FileHandle | undefined> {
  try {
    // O_NONBLOCK: who has taken a lease on the file makes nobody wait
    const file = await open(path, how | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    if ((await file.stat()).isFile()) return file;
    await file.close();
  } catch (error) {
    if (systemErrorCode(error) === undefined) throw error;
  }
  return undefined;
}
