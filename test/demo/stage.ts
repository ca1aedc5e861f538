import { EventEmitter, once } from 'node:events';

const DEADLINE_MS = 120_000;

/** Waits of the demo: all within one deadline, and cancelled by an interruption. */
export class Stage implements Disposable {
  readonly #ending = new AbortController();
  readonly #calls = new EventEmitter();
  readonly #deadline = setTimeout(() => this.#ending.abort(new TooLate()), DEADLINE_MS);

  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  /** The service answered a call. */
  called(): void {
    this.#calls.emit('call');
  }

  /** Ends everything and removes all files after an interruption. */
  leave(): void {
    this.#ending.abort(new Left());
    this.stay();
  }

  /** From now on nothing is too late. */
  stay(): void {
    clearTimeout(this.#deadline);
  }

  /** The work ends with `signal`. An error names the wait that took too long. */
  async waitFor<T>(what: string, work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      if (!(this.signal.reason instanceof TooLate)) throw error;
      throw new Error(`${DEADLINE_MS / 1_000} s were over before ${what} came`, { cause: error });
    }
  }

  /** Looks again after each call that the service answers. */
  async until(what: string, condition: () => boolean): Promise<void> {
    const met = async (): Promise<void> => {
      while (!condition()) await once(this.#calls, 'call', { signal: this.signal });
    };
    await this.waitFor(what, met());
  }

  [Symbol.dispose](): void {
    this.stay();
  }
}

class TooLate extends Error {}

/** The demo was interrupted. */
export class Left extends Error {}
