import { createHash } from 'node:crypto';

import type { Hasher } from '../../../src/slots/hasher.ts';

/** Looks at the bytes only some turns of the event loop after it got them, as another thread would. */
export class LazyHasher implements Hasher {
  readonly #hash = createHash('sha256');
  #last = Promise.resolve();
  disposed = false;

  async update(bytes: Uint8Array): Promise<void> {
    this.#last = this.#afterwards(this.#last, bytes);
    return this.#last;
  }

  async digest(): Promise<string> {
    await this.#last;
    return `sha256:${this.#hash.copy().digest('hex')}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.disposed = true;
  }

  async #afterwards(previous: Promise<void>, bytes: Uint8Array): Promise<void> {
    await previous;
    for (let turn = 0; turn < 5; turn += 1) await Promise.resolve();
    this.#hash.update(bytes);
  }
}
