import { abortable } from './abortable.ts';

/** Work of which only so much is done at once; the rest waits in order. */
export class Turns {
  readonly #most: number;
  readonly #waiting: PromiseWithResolvers<void>[] = [];
  #atWork = 0;

  constructor(most: number) {
    this.#most = most;
  }

  /** A turn lasts until the work has really ended, though nobody may wait for it any more. */
  async run<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    signal.throwIfAborted();
    const turn = Promise.withResolvers<void>();
    this.#waiting.push(turn);
    this.#beginNext();
    try {
      await abortable(turn.promise, signal);
    } catch (error) {
      this.#leave(turn);
      throw error;
    }
    return abortable(
      work().finally(() => this.#end()),
      signal,
    );
  }

  /** It may just have begun. */
  #leave(turn: PromiseWithResolvers<void>): void {
    const at = this.#waiting.indexOf(turn);
    if (at === -1) this.#end();
    else this.#waiting.splice(at, 1);
  }

  #end(): void {
    this.#atWork -= 1;
    this.#beginNext();
  }

  #beginNext(): void {
    if (this.#atWork >= this.#most) return;
    const next = this.#waiting.shift();
    if (next === undefined) return;
    this.#atWork += 1;
    next.resolve();
  }
}
