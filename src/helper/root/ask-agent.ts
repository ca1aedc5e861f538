import type * as z from 'zod';

import { HelperError } from '../errors.ts';
import type { CallEnd, CallOptions, Link } from '../link/link.ts';
import { requireForm } from '../link/message.ts';
import type { Verb } from '../verbs.ts';

type AskOptions = Pick<CallOptions, 'deadlineMs' | 'body'>;

/** Sends the engine's requests to the agent within the running order. Answers are parsed by the table of verbs. */
export class AskAgent {
  readonly #link: Link;
  /** The running order; undefined: there is none, so nothing may be asked. */
  #order: { readonly id: number; readonly signal: AbortSignal } | undefined;

  constructor(link: Link) {
    this.#link = link;
  }

  get isBusy(): boolean {
    return this.#order !== undefined;
  }

  /** The signal of the running order, with which ports without a signal of their own end. */
  get signal(): AbortSignal {
    if (this.#order === undefined) throw new Error('no order runs');
    return this.#order.signal;
  }

  /** Runs the work as an order. Throws `helper-busy` if another one runs. */
  async during<T>(order: { readonly id: number; readonly signal: AbortSignal }, work: () => Promise<T>): Promise<T> {
    if (this.isBusy) throw new HelperError('helper-busy', 'the helper is at work on something else');
    this.#order = order;
    try {
      return await work();
    } finally {
      this.#order = undefined;
    }
  }

  async answer<I extends z.ZodType, O extends z.ZodType>(
    verb: Verb<I, O>,
    input: z.output<I>,
    options: AskOptions,
    signal: AbortSignal,
  ): Promise<z.output<O>> {
    const { output, body } = await this.answerWithBytes(verb, input, options, signal);
    if (body !== undefined) throw new HelperError('link-malformed', `the answer to ${verb.name} has bytes`);
    return output;
  }

  async answerWithBytes<I extends z.ZodType, O extends z.ZodType>(
    verb: Verb<I, O>,
    input: z.output<I>,
    options: AskOptions,
    signal: AbortSignal,
  ): Promise<{ readonly output: z.output<O>; readonly body: Uint8Array | undefined }> {
    const { output, body } = await this.#call(verb, input, options, signal);
    return { output: requireForm(`the answer to ${verb.name}`, verb.output, output), body };
  }

  /** The bytes of an answer; undefined: it had none. */
  async bytes<I extends z.ZodType>(
    verb: Verb<I>,
    input: z.output<I>,
    options: AskOptions,
    signal: AbortSignal,
  ): Promise<Uint8Array | undefined> {
    return (await this.#call(verb, input, options, signal)).body;
  }

  /**
   * Tells the agent to end something, and waits until it has. Never fails: with the order, the agent ends everything
   * that belongs to it.
   */
  async ending<I extends z.ZodType>(
    verb: Verb<I>,
    input: z.output<I>,
    options: AskOptions,
    signal: AbortSignal,
  ): Promise<void> {
    if (signal.aborted || !this.#link.isOpen) return;
    await this.#call(verb, input, options, signal).catch(() => {});
  }

  /** Tells the agent that something has ended, without waiting for an answer. */
  async forgetfully<I extends z.ZodType>(verb: Verb<I>, input: z.output<I>): Promise<void> {
    const { signal } = this;
    if (signal.aborted || !this.#link.isOpen) return;
    void this.#call(verb, input, { deadlineMs: 60_000 }, signal).catch(() => {});
  }

  async #call(verb: Verb, input: unknown, options: AskOptions, signal: AbortSignal): Promise<CallEnd> {
    const within = this.#order?.id;
    if (within === undefined) throw new Error(`${verb.name} was asked while no order runs`);
    return this.#link.call(verb.name, input, { ...options, within }, signal);
  }
}
