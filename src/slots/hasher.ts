import { Worker } from 'node:worker_threads';

import { describeError } from '../system/errors.ts';
import { SlotError } from './errors.ts';

/** Computes the SHA-256 of a sequence of pieces while the caller does something else. */
export interface Hasher extends AsyncDisposable {
  /** Adds bytes in the order of the calls. They must not change until the promise resolves. */
  update(bytes: Uint8Array): Promise<void>;
  /** `sha256:` and the hex digest of all pieces so far; more may follow. */
  digest(): Promise<string>;
}

export type StartHasher = (where: string) => Hasher;

/** The V8 heap of the worker. The hashed blocks are shared memory, and not part of it. */
const heapMb = 16;

/** Hashes in a worker thread. The bytes must lie in a SharedArrayBuffer, since they are not copied. */
export class WorkerHasher implements Hasher {
  readonly #where: string;
  readonly #worker: Worker;
  readonly #waiting: PromiseWithResolvers<string>[] = [];
  #failure: SlotError | undefined;

  constructor(where: string) {
    this.#where = where;
    const file = import.meta.url.endsWith('.ts') ? './hash-worker.ts' : './hash-worker.js';
    this.#worker = new Worker(new URL(file, import.meta.url), {
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: heapMb, maxYoungGenerationSizeMb: 2 },
    });
    this.#worker.on('message', (answer: string) => this.#waiting.shift()?.resolve(answer));
    this.#worker.on('error', (error) => this.#fail(describeError(error), error));
    this.#worker.on('exit', () => this.#fail('the thread that hashes has ended'));
  }

  async update(bytes: Uint8Array): Promise<void> {
    await this.#ask(bytes);
  }

  async digest(): Promise<string> {
    return `sha256:${await this.#ask('digest')}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker.terminate();
  }

  async #ask(message: Uint8Array | 'digest'): Promise<string> {
    if (this.#failure !== undefined) throw this.#failure;
    const answer = Promise.withResolvers<string>();
    this.#waiting.push(answer);
    this.#worker.postMessage(message, []);
    return answer.promise;
  }

  #fail(why: string, cause?: unknown): void {
    this.#failure ??= new SlotError('hash-worker-failed', this.#where, why, cause);
    for (const waiting of this.#waiting.splice(0)) waiting.reject(this.#failure);
  }
}
