import type { Dispatcher } from 'undici';

import { ServiceError } from '../errors.ts';
import { ReceiveBuffers } from './receiving/receive-buffers.ts';
import { headerOf } from './statuses.ts';
import type { Headers } from './statuses.ts';

/** Each of them is a sign of life: endless ones would hold a request until its last deadline, which may be a day. */
const MOST_INFORMATIONAL = 64;

type End = { readonly kind: 'complete' } | { readonly kind: 'failed'; readonly reason: unknown };

/**
 * One request and its reply, on undici's dispatch interface. The data of one turn of the event loop is passed on in one
 * piece, with back-pressure and without a stream in between. Errors are ServiceErrors, or the signal's reason.
 */
export class Exchange implements Dispatcher.DispatchHandler, AsyncDisposable {
  readonly #translate: (error: unknown) => ServiceError;
  readonly #signal: AbortSignal;
  readonly #onAbort = (): void => this.abandon(this.#signal.reason);
  readonly #head = Promise.withResolvers<void>();
  readonly #gathering = new ReceiveBuffers();
  /** True if the end of this turn of the event loop will report received data. */
  #willTell = false;
  #status = 0;
  #informational = 0;
  #headers: Headers = {};
  #controller: Dispatcher.DispatchController | undefined;
  #end: End | undefined;
  #news = Promise.withResolvers<void>();

  constructor(translate: (error: unknown) => ServiceError, signal: AbortSignal) {
    this.#translate = translate;
    this.#signal = signal;
    if (signal.aborted) this.#onAbort();
    else signal.addEventListener('abort', this.#onAbort, { once: true });
  }

  get status(): number {
    return this.#status;
  }

  get headers(): Headers {
    return this.#headers;
  }

  header(name: string): string | undefined {
    return headerOf(this.#headers, name);
  }

  /** Resolves when status and headers have arrived. */
  async answered(): Promise<void> {
    await this.#head.promise;
  }

  /**
   * Yields the body, to be read once. Each piece is valid until the next one is requested. Data that arrived before an
   * interruption is yielded before the error.
   */
  async *chunks(): AsyncGenerator<Uint8Array, void, undefined> {
    for (;;) {
      this.#signal.throwIfAborted();
      const chunk = this.#gathering.take();
      if (chunk !== undefined) {
        if (!this.#gathering.isFull) this.#controller?.resume();
        yield chunk;
      } else if (this.#end === undefined) {
        await this.#news.promise;
      } else if (this.#end.kind === 'failed') {
        throw this.#end.reason;
      } else {
        return;
      }
    }
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#end !== undefined) controller.abort(notWanted());
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: Headers): void {
    if (status < 200) {
      // informational replies such as "100 Continue" are skipped
      this.#informational += 1;
      const why = 'the reply never comes to its status';
      if (this.#informational > MOST_INFORMATIONAL)
        this.abandon(this.#translate(new ServiceError({ code: 'reply-malformed', why })));
      return;
    }
    this.#status = status;
    this.#headers = headers;
    this.#head.resolve();
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Uint8Array): void {
    this.#gathering.put(chunk);
    if (this.#gathering.isFull) {
      controller.pause();
      this.#wake();
    } else if (!this.#willTell) {
      this.#willTell = true;
      setImmediate(() => this.#tell());
    }
  }

  onResponseEnd(): void {
    this.#finish({ kind: 'complete' });
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#finish({ kind: 'failed', reason: this.#translate(error) });
  }

  /**
   * Ends the exchange; readers that wait for more get the reason. If the reply was not read completely, its connection
   * is closed.
   */
  abandon(reason: unknown): void {
    if (this.#end !== undefined) return;
    this.#finish({ kind: 'failed', reason });
    this.#controller?.abort(notWanted());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.abandon(notWanted());
  }

  #finish(end: End): void {
    if (this.#end !== undefined) return;
    this.#end = end;
    this.#signal.removeEventListener('abort', this.#onAbort);
    if (end.kind === 'failed') this.#head.reject(end.reason);
    this.#wake();
  }

  #tell(): void {
    this.#willTell = false;
    this.#wake();
  }

  #wake(): void {
    this.#news.resolve();
    this.#news = Promise.withResolvers();
  }
}

function notWanted(): Error {
  return new Error('the reply is no longer wanted');
}
