/** A signal that is aborted with its parent's reason, or with the given one when the time is up. Dispose it at the end. */
export class Deadline implements Disposable {
  readonly #controller = new AbortController();
  readonly #parent: AbortSignal;
  readonly #timer: NodeJS.Timeout;
  readonly #onAbort = (): void => this.#controller.abort(this.#parent.reason);

  constructor(ms: number, reason: () => Error, parent: AbortSignal) {
    this.#parent = parent;
    this.#timer = setTimeout(() => this.#controller.abort(reason()), Math.min(ms, longestTimerMs));
    if (parent.aborted) this.#onAbort();
    else parent.addEventListener('abort', this.#onAbort, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#parent.removeEventListener('abort', this.#onAbort);
  }
}

/** setTimeout takes a signed 32-bit number; more would fire at once. */
const longestTimerMs = 2 ** 31 - 1;
