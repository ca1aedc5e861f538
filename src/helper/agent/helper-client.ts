import { connect } from 'node:net';
import type { Socket } from 'node:net';

import type * as z from 'zod';

import type { OnEvent } from '../../control/events.ts';
import { describeError, systemErrorCode } from '../../system/errors.ts';
import type { Log } from '../../system/log/log.ts';
import { occurrence } from '../../system/socket.ts';
import type { Clock } from '../../system/time/clock.ts';
import { Deadline } from '../../system/time/deadline.ts';
import { HelperError } from '../errors.ts';
import { Link } from '../link/link.ts';
import type { Answer, CallTerms, Served } from '../link/link.ts';
import { Tray, trayBeside } from '../link/tray.ts';
import { helperNote, helperVerbs, PROTOCOL } from '../verbs.ts';
import type { HelperNotes, Snapshot, Verb } from '../verbs.ts';
import { PortServer } from './port-server.ts';
import type { AgentPorts } from './port-server.ts';

export interface HelperClientDeps {
  readonly path: string;
  readonly clock: Pick<Clock, 'sleep'>;
  readonly log: Log;
  readonly onSnapshot: (snapshot: Snapshot) => void;
  readonly onJournal: (told: HelperNotes['journal']) => void;
  readonly onSecurity: (told: HelperNotes['security']) => void;
  /** How long a person waits for what is only shown. Default: some seconds. */
  readonly glanceMs?: number | undefined;
  /** How long a helper has to take a connection up. Default: what it takes on a slow gateway. */
  readonly attachMs?: number | undefined;
}

interface Order {
  readonly ports: PortServer;
  readonly onEvent: OnEvent;
}

/**
 * systemd accepts the connection at once, but on a slow gateway a helper may have to be started, and reads its
 * configuration.
 */
const ATTACH_MS = 120_000;
const CONNECT_MS = 10_000;
/** A person waits: within this time a helper is started on a small board. */
const GLANCE_MS = 8_000;
/** For an answer that does not need the agent; the boot environment may be written for it. */
const ANSWER_MS = 5 * 60_000;
/** Work that is cancelled must end within this time. */
const PATIENCE_MS = 90_000;
/** The pause between attempts while the previous connection is being closed. */
const BUSY_PAUSE_MS = 200;
const MAX_BUSY = 25;
/** For calls with a deadline of their own, whose error says what took too long. */
const never = new AbortController().signal;

/** The helper closed an idle connection. A request that was already on its way was not begun, and is repeated. */
class HelperLeft extends Error {
  readonly why: 'idle' | 'busy';

  constructor(why: 'idle' | 'busy') {
    super(`the helper does not serve this connection: ${why}`);
    this.why = why;
  }
}

/** Sends requests to the helper, and connects when there is one. */
export class HelperClient implements Disposable {
  readonly #deps: HelperClientDeps;
  readonly #tray: Tray;
  readonly #orders = new Map<number, Order>();
  #link: Link | undefined;
  #attaching: Link | undefined;
  /** So many questions of persons have no answer yet, after their time. */
  #overdue = 0;
  #connecting: Promise<Link> | undefined;
  #leaving: HelperLeft['why'] | undefined;
  #heardMs: number | undefined;

  constructor(deps: HelperClientDeps) {
    this.#deps = deps;
    this.#tray = new Tray(trayBeside(deps.path));
  }

  /** Closes the connection, so that the next request meets a helper that has read its configuration again. */
  hangUp(): void {
    this.#link?.close();
  }

  [Symbol.dispose](): void {
    this.#attaching?.close();
    this.hangUp();
  }

  /** Notes the time of the service's clock; the helper is told with the next request. */
  hear(atMs: number): void {
    this.#heardMs = atMs;
    if (this.#link?.isOpen === true) this.#link.note('heard', { atMs });
  }

  /** Asks the helper. Throws `helper-unreachable`, `helper-lost`, `helper-busy`, or what the helper reports. */
  async ask<I extends z.ZodType, O extends z.ZodType>(
    verb: Verb<I, O>,
    input: z.input<I>,
    signal: AbortSignal = never,
  ): Promise<z.output<O>> {
    return verb.output.parse(await this.#call(verb.name, input, { deadlineMs: ANSWER_MS }, signal));
  }

  /**
   * Like `ask`, for a person who waits: throws `helper-silent` after some seconds, and at once until that question has
   * its answer, for which is waited on.
   */
  async glance<I extends z.ZodType, O extends z.ZodType>(
    verb: Verb<I, O>,
    input: z.input<I>,
    signal: AbortSignal = never,
    withinMs: number = this.#deps.glanceMs ?? GLANCE_MS,
  ): Promise<z.output<O>> {
    const silent = (): Error => this.#silent();
    if (this.#overdue > 0) throw silent();
    const answer = this.ask(verb, input);
    using deadline = new Deadline(withinMs, silent, signal);
    const late = Promise.withResolvers<never>();
    const onAbort = (): void => {
      const counts = signal.aborted ? 0 : 1;
      this.#overdue += counts;
      const ended = (): void => void (this.#overdue -= counts);
      answer.then(ended, ended);
      late.reject(deadline.signal.reason);
    };
    deadline.signal.addEventListener('abort', onAbort, { once: true });
    try {
      return await Promise.race([answer, late.promise]);
    } finally {
      deadline.signal.removeEventListener('abort', onAbort);
    }
  }

  /**
   * Gives the helper a long order. What it needs of this side is answered by `ports`. An abort waits until the helper
   * has ended the work.
   */
  async order<I extends z.ZodType, O extends z.ZodType>(
    verb: Verb<I, O>,
    input: z.input<I>,
    { ports, onEvent = () => {} }: { readonly ports: AgentPorts; readonly onEvent?: OnEvent },
    signal: AbortSignal,
  ): Promise<z.output<O>> {
    await using server = new PortServer(ports, this.#tray);
    const begun: number[] = [];
    const onBegun = (id: number): void => {
      this.#orders.set(id, { ports: server, onEvent });
      begun.push(id);
    };
    try {
      const output = await this.#call(verb.name, input, { onBegun, patienceMs: PATIENCE_MS }, signal);
      return verb.output.parse(output);
    } finally {
      for (const id of begun) this.#orders.delete(id);
      await this.#look();
    }
  }

  /** Asks for what the helper found out in an order, such as the version that the service names. */
  async #look(): Promise<void> {
    if (this.#link?.isOpen !== true) return;
    try {
      const options = { deadlineMs: CONNECT_MS };
      const { output } = await this.#link.call('snapshot', {}, options, never);
      this.#deps.onSnapshot(helperVerbs.snapshot.output.parse(output));
    } catch (error) {
      this.#deps.log.debug({}, `the helper shows nothing: ${describeError(error)}`);
    }
  }

  async #call(verb: string, input: unknown, options: CallTerms, signal: AbortSignal): Promise<unknown> {
    for (let busy = 0; ; busy += 1) {
      try {
        const link = await this.#connected(signal);
        return (await link.call(verb, input, options, signal)).output;
      } catch (error) {
        if (!(error instanceof HelperLeft)) throw error;
        if (busy >= MAX_BUSY) throw new HelperError('helper-busy', `${this.#deps.path}: it serves another process`);
      }
      await this.#deps.clock.sleep(BUSY_PAUSE_MS, signal);
    }
  }

  async #connected(signal: AbortSignal): Promise<Link> {
    if (this.#link?.isOpen === true) return this.#link;
    this.#connecting ??= this.#connect().finally(() => (this.#connecting = undefined));
    signal.throwIfAborted();
    return this.#connecting;
  }

  /** Connects within its own deadlines, without a signal, since others may wait for the same connection. */
  async #connect(): Promise<Link> {
    this.#leaving = undefined;
    const link = new Link(await reach(this.#deps.path), {
      serve: async (served) => this.#serve(served),
      onNote: (topic, content, within) => this.#hearNote(topic, content, within),
      lost: () => this.#lost(),
    });
    this.#attaching = link;
    using deadline = new Deadline(this.#deps.attachMs ?? ATTACH_MS, () => this.#silent(), never);
    try {
      const { output } = await link.call('attach', { protocol: PROTOCOL }, {}, deadline.signal);
      this.#deps.onSnapshot(helperVerbs.attach.output.parse(output));
      if (this.#heardMs !== undefined) link.note('heard', { atMs: this.#heardMs });
      return (this.#link = link);
    } catch (error) {
      link.close();
      throw error;
    } finally {
      this.#attaching = undefined;
    }
  }

  #silent(): Error {
    return new HelperError('helper-silent', `the helper on ${this.#deps.path} takes connections, and does not answer`);
  }

  #lost(): Error {
    if (this.#leaving !== undefined) return new HelperLeft(this.#leaving);
    return new HelperError('helper-lost', `the helper hung up on ${this.#deps.path}`);
  }

  async #serve(served: Served): Promise<Answer> {
    const order = served.within === undefined ? undefined : this.#orders.get(served.within);
    if (order === undefined) throw new HelperError('helper-lost', 'it is asked for by no order that runs');
    return order.ports.serve(served);
  }

  #hearNote(topic: string, content: unknown, within: number | undefined): void {
    const note = helperNote.parse({ topic, content });
    switch (note.topic) {
      case 'progress':
        this.#orders.get(within ?? 0)?.onEvent(note.content);
        return;
      case 'journal':
        this.#deps.onJournal(note.content);
        return;
      case 'security':
        this.#deps.onSecurity(note.content);
        return;
      case 'leaving':
        this.#leaving = note.content.why;
        this.#link?.close();
    }
  }
}

async function reach(path: string): Promise<Socket> {
  const socket = connect({ path });
  try {
    await occurrence(socket, 'connect', AbortSignal.timeout(CONNECT_MS));
    return socket;
  } catch (error) {
    socket.destroy();
    if (systemErrorCode(error) === undefined && !(error instanceof DOMException)) throw error;
    throw new HelperError('helper-unreachable', `nobody answers on ${path}: ${describeError(error)}`, { cause: error });
  }
}
