/**
 * Invariant 6: a signal that is aborted with its parent's reason, or with `reason` when the time is up. Dispose it when
 * the work has ended.
 */
export class Deadline implements Disposable {
  readonly #controller = new AbortController();
  readonly #parent: AbortSignal;
  readonly #reason: () => Error;
  #timer: NodeJS.Timeout;
  /** The time that was added since the timer was set. */
  #addedMs = 0;
  #addableMs = longestExtensionMs;
  readonly #onAbort = (): void => this.#controller.abort(this.#parent.reason);

  constructor(ms: number, reason: () => Error, parent: AbortSignal) {
    this.#parent = parent;
    this.#reason = reason;
    this.#timer = this.#setTimer(ms);
    if (parent.aborted) this.#onAbort();
    else parent.addEventListener('abort', this.#onAbort, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Postpones the deadline. All extensions together are bounded to 30 days, so that it stays a deadline. */
  extend(ms: number): void {
    const addedMs = Math.min(ms, this.#addableMs);
    this.#addableMs -= addedMs;
    this.#addedMs += addedMs;
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#parent.removeEventListener('abort', this.#onAbort);
  }

  #setTimer(ms: number): NodeJS.Timeout {
    return setTimeout(() => this.#end(), Math.min(ms, longestTimerMs));
  }

  #end(): void {
    const addedMs = this.#addedMs;
    this.#addedMs = 0;
    if (addedMs > 0) this.#timer = this.#setTimer(addedMs);
    else this.#controller.abort(this.#reason());
  }
}

const longestExtensionMs = 30 * 24 * 3_600_000;

/** setTimeout takes a signed 32-bit number, and fires immediately for more. */
const longestTimerMs = 2 ** 31 - 1;
