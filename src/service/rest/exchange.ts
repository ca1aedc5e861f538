import type { Dispatcher } from 'undici';

import { giveBack } from '../../system/files/give-back.ts';
import type { ServiceError } from '../errors.ts';
import { headerOf } from './statuses.ts';
import type { Headers } from './statuses.ts';

/**
 * The socket is paused while so many received bytes were not taken yet. One more read of the socket may come on top.
 */
const maxQueuedBytes = 128 * 1024;

type End = { readonly kind: 'complete' } | { readonly kind: 'failed'; readonly reason: unknown };

/**
 * One request and its reply, on undici's dispatch interface. Pieces are passed on as they were read from the socket,
 * with back-pressure and without a stream in between. Errors are ServiceErrors, or the signal's reason.
 */
export class Exchange implements Dispatcher.DispatchHandler, AsyncDisposable {
  readonly #translate: (error: unknown) => ServiceError;
  readonly #signal: AbortSignal;
  readonly #onAbort = (): void => this.abandon(this.#signal.reason);
  readonly #head = Promise.withResolvers<void>();
  readonly #queue: Uint8Array[] = [];
  #queuedBytes = 0;
  #status = 0;
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
   * The body, to be read once. Each piece is valid until the next one is asked for. What arrived before a cut is
   * yielded before the error.
   */
  async *chunks(): AsyncGenerator<Uint8Array, void, undefined> {
    for (;;) {
      this.#signal.throwIfAborted();
      const chunk = this.#queue.shift();
      if (chunk !== undefined) {
        this.#queuedBytes -= chunk.byteLength;
        if (this.#queuedBytes <= maxQueuedBytes) this.#controller?.resume();
        yield chunk;
        giveBack(chunk);
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
    if (status < 200) return; // informational replies such as "100 Continue" are skipped
    this.#status = status;
    this.#headers = headers;
    this.#head.resolve();
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Uint8Array): void {
    this.#queue.push(chunk);
    this.#queuedBytes += chunk.byteLength;
    if (this.#queuedBytes > maxQueuedBytes) controller.pause();
    this.#wake();
  }

  onResponseEnd(): void {
    this.#finish({ kind: 'complete' });
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#finish({ kind: 'failed', reason: this.#translate(error) });
  }

  /**
   * Ends the exchange; whoever waits for more gets the reason. If the reply was not read to its end, its connection is
   * closed.
   */
  abandon(reason: unknown): void {
    if (this.#end !== undefined) return;
    this.#finish({ kind: 'failed', reason });
    this.#controller?.abort(notWanted());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.abandon(notWanted());
    this.#queue.length = 0;
  }

  #finish(end: End): void {
    if (this.#end !== undefined) return;
    this.#end = end;
    this.#signal.removeEventListener('abort', this.#onAbort);
    if (end.kind === 'failed') this.#head.reject(end.reason);
    this.#wake();
  }

  #wake(): void {
    this.#news.resolve();
    this.#news = Promise.withResolvers();
  }
}

function notWanted(): Error {
  return new Error('the reply is not wanted any more');
}
