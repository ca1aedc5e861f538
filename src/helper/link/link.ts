import { once } from 'node:events';
import type { Socket } from 'node:net';

import { AgentError } from '../../system/errors.ts';
import { giveBack } from '../../system/files/give-back.ts';
import { Deadline } from '../../system/time/deadline.ts';
import { HelperError } from '../errors.ts';
import { encodeHead, FrameDecoder } from './frame.ts';
import type { Frame } from './frame.ts';
import { CANCELLED, fromLinkError, toLinkError } from './link-error.ts';
import type { LinkError } from './link-error.ts';
import { outOfTurn, parseMessage } from './message.ts';
import type { Message } from './message.ts';

export interface Answer {
  readonly output: unknown;
  readonly body?: Uint8Array | undefined;
  /** Called when the body is not needed any more. */
  readonly onSent?: (() => void) | undefined;
}

/** A request of the other side. */
export interface Served {
  readonly id: number;
  readonly verb: string;
  readonly input: unknown;
  /** The call of ours to which the request belongs; undefined: none. */
  readonly within: number | undefined;
  readonly body: Buffer | undefined;
  /** Aborted when the other side cancels the request, or is gone. */
  readonly signal: AbortSignal;
}

export interface LinkDeps {
  readonly serve: (served: Served) => Promise<Answer>;
  readonly onNote: (topic: string, content: unknown, within: number | undefined) => void;
  /** The error that ends everything pending when the other side is gone. */
  readonly lost: () => Error;
  /** The longest head of the other side. Default: that of the helper. */
  readonly maxHeadBytes?: number;
}

export interface CallTerms {
  /** The deadline for the answer; undefined: none. */
  readonly deadlineMs?: number | undefined;
  readonly within?: number | undefined;
  readonly body?: Uint8Array | undefined;
  /** Called with the number of the call, before anything arrives for it. */
  readonly onBegun?: ((id: number) => void) | undefined;
  /** How long an abort waits until the other side has ended its work; undefined: it does not wait. */
  readonly patienceMs?: number | undefined;
}

export interface CallEnd {
  readonly output: unknown;
  readonly body: Buffer | undefined;
}

interface Pending {
  readonly resolve: (end: CallEnd) => void;
  readonly reject: (error: unknown) => void;
}

/** The most requests of the other side at once. */
const MAX_SERVED = 16;
/** A message that has begun must end within this time. */
const FRAME_MS = 60_000;
const FAREWELL_MS = 1_000;

/**
 * Calls in both directions over one connection. Everything that arrives is bounded, and a side that breaks a rule loses
 * the connection. It ends by `close`, by a broken rule, or with the socket; pending calls then end with `lost()`.
 */
export class Link {
  readonly #socket: Socket;
  readonly #deps: LinkDeps;
  readonly #decoder: FrameDecoder;
  readonly #pending = new Map<number, Pending>();
  readonly #served = new Map<number, AbortController>();
  readonly #working = new Set<Promise<void>>();
  readonly #ended = Promise.withResolvers<void>();
  #lastId = 0;
  #isClosed = false;
  #late: NodeJS.Timeout | undefined;
  #broken: HelperError | undefined;

  constructor(socket: Socket, deps: LinkDeps) {
    this.#socket = socket;
    this.#deps = deps;
    this.#decoder = new FrameDecoder(deps.maxHeadBytes);
    socket.on('data', (piece: Buffer) => this.#take(piece));
    socket.on('error', () => this.close());
    socket.once('close', () => this.close());
  }

  get isOpen(): boolean {
    return !this.#isClosed;
  }

  /** The rule that the other side broke; undefined: none. */
  get broken(): HelperError | undefined {
    return this.#broken;
  }

  get isAtRest(): boolean {
    return this.#pending.size === 0 && this.#served.size === 0 && !this.#decoder.isWithin;
  }

  /** Resolves when the link is closed. */
  get hungUp(): Promise<void> {
    return this.#ended.promise;
  }

  /** Resolves when the link is closed and all requests of the other side have ended. */
  async ended(): Promise<void> {
    await this.#ended.promise;
    while (this.#working.size > 0) await Promise.all(this.#working);
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearTimeout(this.#late);
    const reason = this.#deps.lost();
    for (const served of this.#served.values()) served.abort(reason);
    for (const { reject } of this.#pending.values()) reject(reason);
    this.#pending.clear();
    this.#socket.destroySoon(); // the last message gets a moment to be sent
    setTimeout(() => this.#socket.destroy(), FAREWELL_MS).unref();
    this.#ended.resolve();
  }

  /** Sends a message without an answer. */
  note(topic: string, content: unknown, within?: number): void {
    if (this.#isClosed) return;
    this.#socket.write(encodeHead({ kind: 'note', topic, content, within }));
  }

  /**
   * Calls the other side. Throws its error, `lost()`, the signal's reason, or `helper-lost` if no answer comes in time.
   */
  async call(verb: string, input: unknown, options: CallTerms, signal: AbortSignal): Promise<CallEnd> {
    signal.throwIfAborted();
    if (this.#isClosed) throw this.#deps.lost();
    const { deadlineMs, within, body, onBegun, patienceMs } = options;
    const id = (this.#lastId += 1);
    const { promise, resolve, reject } = Promise.withResolvers<CallEnd>();
    promise.catch(() => {}); // it is awaited below
    this.#pending.set(id, { resolve, reject });
    const tooLate = (): Error => new HelperError('helper-lost', `there was no answer to ${verb} in time`);
    using deadline = deadlineMs === undefined ? undefined : new Deadline(deadlineMs, tooLate, signal);
    const ending = deadline?.signal ?? signal;
    const onAbort = (): void => this.#callOff(id, ending, patienceMs);
    ending.addEventListener('abort', onAbort, { once: true });
    try {
      onBegun?.(id);
      await this.#send({ kind: 'call', id, verb, input, within }, body);
      return await promise;
    } catch (error) {
      if (!(error instanceof Reported)) throw error;
      throw signal.aborted && error.error.code === CANCELLED.code ? signal.reason : fromLinkError(error.error);
    } finally {
      ending.removeEventListener('abort', onAbort);
      this.#pending.delete(id);
    }
  }

  #callOff(id: number, ending: AbortSignal, patienceMs: number | undefined): void {
    if (this.#isClosed) return;
    this.#socket.write(encodeHead({ kind: 'cancel', id }));
    const giveUp = (): void => this.#pending.get(id)?.reject(ending.reason);
    if (patienceMs === undefined) giveUp();
    else setTimeout(giveUp, patienceMs).unref();
  }

  #take(piece: Buffer): void {
    try {
      for (const frame of this.#decoder.push(piece)) {
        clearTimeout(this.#late);
        this.#late = undefined;
        if (!this.#isClosed) this.#receive(frame);
      }
      giveBack(piece); // the decoder has copied it
      if (this.#decoder.isWithin) this.#late ??= setTimeout(() => this.close(), FRAME_MS).unref();
    } catch (error) {
      if (!(error instanceof HelperError)) throw error;
      this.#broken = error;
      this.close();
    }
  }

  #receive(frame: Frame): void {
    const { body } = frame;
    const data = parseMessage(frame);
    switch (data.kind) {
      case 'call':
        this.#begin(data, body);
        return;
      case 'result':
        this.#requireAsked(data.id)?.resolve({ output: data.output, body });
        return;
      case 'error':
        this.#requireAsked(data.id)?.reject(new Reported(data.error));
        return;
      case 'cancel':
        this.#served.get(data.id)?.abort(new CalledOff());
        return;
      case 'note':
        this.#deps.onNote(data.topic, data.content, data.within);
    }
  }

  /** The pending call with this number; undefined: nobody waits for it any more. */
  #requireAsked(id: number): Pending | undefined {
    if (id > this.#lastId) throw outOfTurn('an answer to nothing');
    return this.#pending.get(id);
  }

  #begin(call: Extract<Message, { readonly kind: 'call' }>, body: Buffer | undefined): void {
    if (this.#served.has(call.id)) throw outOfTurn('a call twice');
    if (this.#served.size >= MAX_SERVED) throw outOfTurn('too much at once');
    const controller = new AbortController();
    this.#served.set(call.id, controller);
    const { id, verb, input, within } = call;
    const work = this.#perform({ id, verb, input, within, body, signal: controller.signal });
    this.#working.add(work);
    void work.finally(() => this.#working.delete(work));
  }

  async #perform(served: Served): Promise<void> {
    const { id, signal } = served;
    try {
      const { output, body, onSent } = await this.#deps.serve(served);
      await this.#send({ kind: 'result', id, output }, body);
      onSent?.();
    } catch (error) {
      if (error instanceof HelperError && error.code === 'link-malformed') this.#broken = error;
      const isOurs = signal.aborted || this.#isClosed;
      if (!isOurs && !(error instanceof AgentError)) throw error;
      if (this.#broken !== undefined) this.close();
      else await this.#send({ kind: 'error', id, error: asLinkError(error) }).catch(() => {});
    } finally {
      this.#served.delete(id);
    }
  }

  /** Resolves when the system has accepted all bytes. */
  async #send(head: Message, body?: Uint8Array): Promise<void> {
    if (this.#isClosed) throw this.#deps.lost();
    const bytes = encodeHead(head, body?.byteLength);
    if (body === undefined || body.byteLength === 0) {
      if (this.#socket.write(bytes)) return;
      await Promise.race([once(this.#socket, 'drain'), this.#ended.promise]);
      return;
    }
    this.#socket.cork();
    this.#socket.write(bytes);
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#socket.write(body, () => resolve());
    this.#socket.uncork();
    await Promise.race([promise, this.#ended.promise]);
  }
}

/** The other side has cancelled the request. */
export class CalledOff extends Error {
  constructor() {
    super('the other side called it off');
  }
}

/** Wraps an error of the other side, until it is known whether the call was cancelled. */
class Reported extends Error {
  readonly error: LinkError;

  constructor(error: LinkError) {
    super(error.message);
    this.error = error;
  }
}

function asLinkError(error: unknown): LinkError {
  return error instanceof AgentError ? toLinkError(error) : CANCELLED;
}
