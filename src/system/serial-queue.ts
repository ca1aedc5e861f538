import { abortable } from './abortable.ts';

/** Runs a bounded number of tasks concurrently; the others wait in order. */
export class SerialQueue {
  readonly #most: number;
  readonly #waiting: PromiseWithResolvers<void>[] = [];
  #atWork = 0;

  constructor(most: number) {
    this.#most = most;
  }

  /** The number of works that wait. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** Runs the task when its turn comes. The turn ends with the task, even if the caller no longer waits for it. */
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

  /** Releases a turn that waits or has just started. */
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
