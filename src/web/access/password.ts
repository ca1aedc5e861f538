import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';

import { SerialQueue } from '../../system/serial-queue.ts';
import { PageError, readPageFile } from '../page-errors.ts';
import { MAX_PASSWORD_FILE_BYTES, passwordFault, passwordIn } from '../settings.ts';

/** One hash takes about 50 ms and 16 MiB on a small board. */
const COST = { N: 16_384, r: 8, p: 1 };
const HASH_BYTES = 32;

const hash = promisify<string, Buffer, number, typeof COST, Buffer>(scrypt);

/** The requests of one address, of which one at a time has a turn. */
interface Line {
  readonly queue: SerialQueue;
  requests: number;
}

/**
 * Compares passwords with a slow hash, one after the other, so that concurrent guessing stays slow. A flood of one
 * address delays another one by one comparison. No request is refused, since each holds a connection, which are few.
 */
export class Password {
  readonly #salt: Buffer;
  readonly #hash: Buffer;
  readonly #turns = new SerialQueue(1);
  readonly #lines = new Map<string, Line>();

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

  async matches(given: string, from: string, signal: AbortSignal): Promise<boolean> {
    const line = this.#lines.get(from) ?? { queue: new SerialQueue(1), requests: 0 };
    this.#lines.set(from, line);
    line.requests += 1;
    const compare = async (): Promise<Buffer> => hash(given, this.#salt, HASH_BYTES, COST);
    try {
      const found = await line.queue.run(async () => this.#turns.run(compare, signal), signal);
      return timingSafeEqual(found, this.#hash);
    } finally {
      line.requests -= 1;
      if (line.requests === 0) this.#lines.delete(from);
    }
  }
}
