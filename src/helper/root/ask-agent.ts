import type * as z from 'zod';

import { HelperError } from '../errors.ts';
import type { CallEnd, CallOptions, Link } from '../link/link.ts';
import type { Verb } from '../verbs.ts';

type AskOptions = Pick<CallOptions, 'deadlineMs'>;

/** What the engine asks of the agent, within the order that runs. What comes back is parsed by the table of verbs. */
export class AskAgent {
  readonly #link: Link;
  /** The order that runs; undefined: none, and nothing is asked. */
  #order: { readonly id: number; readonly signal: AbortSignal } | undefined;

  constructor(link: Link) {
    this.#link = link;
  }

  get isBusy(): boolean {
    return this.#order !== undefined;
  }

  /** Of the order that runs; ports without a signal of their own end with it. */
  get signal(): AbortSignal {
    if (this.#order === undefined) throw new Error('no order runs');
    return this.#order.signal;
  }

  /** Throws `helper-busy` where another one runs. */
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
    const { output, body } = await this.#call(verb, input, options, signal);
    const { data, success, error } = verb.output.safeParse(output);
    if (success && body === undefined) return data;
    throw new HelperError(
      'link-malformed',
      `the answer to ${verb.name} is of another form: ${error?.message ?? 'bytes'}`,
    );
  }

  /** Undefined: no bytes came. */
  async bytes<I extends z.ZodType>(
    verb: Verb<I>,
    input: z.output<I>,
    options: AskOptions,
    signal: AbortSignal,
  ): Promise<Uint8Array | undefined> {
    return (await this.#call(verb, input, options, signal)).body;
  }

  /** The end of something; nobody waits for it. */
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
