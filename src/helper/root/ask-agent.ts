import { AsyncLocalStorage } from 'node:async_hooks';

import type * as z from 'zod';

import { HelperError } from '../errors.ts';
import type { CallEnd, CallTerms, Link } from '../link/link.ts';
import { requireForm } from '../link/message.ts';
import type { TrayReader } from '../link/tray.ts';
import type { Verb } from '../verbs.ts';

type AskTerms = Pick<CallTerms, 'deadlineMs' | 'body'>;

interface Order {
  readonly id: number;
  readonly signal: AbortSignal;
}

/** Sends the engine's requests to the agent within the order that needs them. Answers are parsed by the table of verbs. */
export class AskAgent {
  readonly tray: TrayReader;
  readonly #link: Link;
  /** The orders that run: a look changes nothing, and runs beside another one. */
  readonly #running = new Map<'look' | 'work', Order>();
  readonly #context = new AsyncLocalStorage<Order>();

  constructor(link: Link, tray: TrayReader) {
    this.#link = link;
    this.tray = tray;
  }

  /** The signal of the order, with which ports without a signal of their own end. */
  get signal(): AbortSignal {
    return this.#order.signal;
  }

  /** Runs the work as an order. Throws `helper-busy` if another one of its kind runs. */
  async during<T>(kind: 'look' | 'work', order: Order, work: () => Promise<T>): Promise<T> {
    if (this.#running.has(kind)) throw new HelperError('helper-busy', 'the helper is at work on something else');
    this.#running.set(kind, order);
    try {
      return await this.#context.run(order, work);
    } finally {
      this.#running.delete(kind);
    }
  }

  /** The order for which this is called, while it runs. */
  get #order(): Order {
    const order = this.#context.getStore();
    if (order === undefined || ![...this.#running.values()].includes(order)) throw new Error('no order runs');
    return order;
  }

  async answer<I extends z.ZodType, O extends z.ZodType>(
    verb: Verb<I, O>,
    input: z.output<I>,
    options: AskTerms,
    signal: AbortSignal,
  ): Promise<z.output<O>> {
    const { output, body } = await this.answerWithBytes(verb, input, options, signal);
    if (body !== undefined) throw new HelperError('link-malformed', `the answer to ${verb.name} has bytes`);
    return output;
  }

  async answerWithBytes<I extends z.ZodType, O extends z.ZodType>(
    verb: Verb<I, O>,
    input: z.output<I>,
    options: AskTerms,
    signal: AbortSignal,
  ): Promise<{ readonly output: z.output<O>; readonly body: Uint8Array | undefined }> {
    const { output, body } = await this.#call(verb, input, options, signal);
    return { output: requireForm(`the answer to ${verb.name}`, verb.output, output), body };
  }

  /**
   * Tells the agent to end something, and waits until it has. Never fails: with the order, the agent ends everything
   * that belongs to it.
   */
  async ending<I extends z.ZodType>(
    verb: Verb<I>,
    input: z.output<I>,
    options: AskTerms,
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

  async #call(verb: Verb, input: unknown, options: AskTerms, signal: AbortSignal): Promise<CallEnd> {
    return this.#link.call(verb.name, input, { ...options, within: this.#order.id }, signal);
  }
}
