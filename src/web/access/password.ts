import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';

import { SerialQueue } from '../../system/serial-queue.ts';
import { PageError, readPageFile, Refusal } from '../page-errors.ts';
import { MAX_PASSWORD_FILE_BYTES, passwordFault, passwordIn } from '../settings.ts';

/** One hash takes about 50 ms and 16 MiB on a small board. */
const COST = { N: 16_384, r: 8, p: 1 };
const HASH_BYTES = 32;
/** The most requests that wait for a comparison: in all, and of one address. */
const MAX_WAITING = 16;
const MAX_WAITING_OF_ONE = 4;

const hash = promisify<string, Buffer, number, typeof COST, Buffer>(scrypt);

/**
 * Compares passwords with a slow hash, one after the other, so that concurrent guessing stays slow. Users are not
 * locked out, since each address has only a few places in the queue.
 */
export class Password {
  readonly #salt: Buffer;
  readonly #hash: Buffer;
  readonly #turns = new SerialQueue(1);
  readonly #waiting = new Map<string, number>();

  private constructor(salt: Buffer, expected: Buffer) {
    this.#salt = salt;
    this.#hash = expected;
  }

  /** Reads the password from the first line of a file. Throws PageError. */
  static async read(path: string): Promise<Password> {
    const password = passwordIn(new TextDecoder().decode(await readPageFile(path, MAX_PASSWORD_FILE_BYTES)));
    const fault = passwordFault(password);
    if (fault !== undefined) throw new PageError('web-files-invalid', `${path} ${fault}`);
    return Password.of(password);
  }

  static async of(password: string): Promise<Password> {
    const salt = randomBytes(16);
    return new Password(salt, await hash(password, salt, HASH_BYTES, COST));
  }

  /** Compares a password. Throws Refusal if too many requests wait already. */
  async matches(given: string, from: string, signal: AbortSignal): Promise<boolean> {
    const ofOne = this.#waiting.get(from) ?? 0;
    const all = [...this.#waiting.values()].reduce((sum, count) => sum + count, 0);
    if (ofOne >= MAX_WAITING_OF_ONE || all >= MAX_WAITING)
      throw new Refusal(503, 'Too many login attempts. Try again.');
    this.#waiting.set(from, ofOne + 1);
    try {
      const found = await this.#turns.run(async () => hash(given, this.#salt, HASH_BYTES, COST), signal);
      return timingSafeEqual(found, this.#hash);
    } finally {
      const left = (this.#waiting.get(from) ?? 1) - 1;
      if (left === 0) this.#waiting.delete(from);
      else this.#waiting.set(from, left);
    }
  }
}
