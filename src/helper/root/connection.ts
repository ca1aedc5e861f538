import type { Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';

import type { EngineWorld } from '../../daemon/wiring/wiring.ts';
import { HelperError } from '../errors.ts';
import { MAX_AGENT_HEAD_BYTES } from '../link/frame.ts';
import { Link } from '../link/link.ts';
import type { Answer, Served } from '../link/link.ts';
import { heardNote } from '../verbs.ts';
import type { HelperNotes } from '../verbs.ts';
import { AskAgent } from './ask-agent.ts';
import { openEngine, toldSecurity } from './engine.ts';
import type { EngineListeners, HelperEngine } from './engine.ts';
import type { Opening } from './opening.ts';
import { rowOf } from './service-table.ts';

export interface ConnectionDeps {
  readonly opening: Pick<Opening, 'openForAgent'>;
  readonly world: EngineWorld;
  /** An idle connection is closed after this time. */
  readonly idleMs: number;
}

/** Work that nobody waits for any more must end within this time; else the process ends. */
const ENDING_MS = 60_000;

/** The agent is gone. What runs for it ends as if it was cancelled, and the journal tells the next agent. */
class AgentGone extends Error {
  constructor() {
    super('the agent hung up');
  }
}

/** How long a helper that is told to end still waits for the answer to the order that has asked for a reboot. */
const LAST_ANSWER_MS = 10_000;

interface Attached {
  readonly engine: HelperEngine;
  readonly ask: AskAgent;
}

/** Serves the agent on one connection, until it hangs up, is silent for too long, or breaks a rule. */
export class Connection {
  readonly #options: ConnectionDeps;
  readonly #link: Link;
  #attached: Attached | undefined;
  #isAttached = false;
  #idle: NodeJS.Timeout | undefined;
  readonly #orders = new Set<Promise<unknown>>();

  constructor(socket: Socket, options: ConnectionDeps) {
    this.#options = options;
    this.#link = new Link(socket, {
      serve: async (served) => this.#serve(served),
      onNote: (topic, content) => this.#hear(topic, content),
      lost: () => new AgentGone(),
      maxHeadBytes: MAX_AGENT_HEAD_BYTES,
    });
    this.#rest();
  }

  /** Hangs up. Seen: a reboot ended the helper before it had told the agent that the machine reboots. */
  async leave(): Promise<void> {
    if (this.#attached?.engine.reboot.isBegun === true) {
      const late = Promise.withResolvers<void>();
      const timer = setTimeout(() => late.resolve(), LAST_ANSWER_MS);
      await Promise.race([Promise.allSettled(this.#orders), late.promise]);
      clearTimeout(timer);
      await nextTurn(); // the answer is written
    }
    this.#link.close();
  }

  async ended(): Promise<void> {
    const { log } = this.#options.world;
    await this.#link.hungUp;
    clearTimeout(this.#idle);
    const { broken } = this.#link;
    if (broken !== undefined) log.error({ code: broken.code }, `the agent was hung up on: ${broken.message}`);
    const late = setTimeout(() => {
      throw new Error('what was begun for an agent that is gone does not end');
    }, ENDING_MS);
    await this.#link.ended();
    clearTimeout(late);
  }

  /** Closes the connection after a time without requests, so that the helper can end. */
  #rest(): void {
    clearTimeout(this.#idle);
    if (!this.#link.isOpen) return; // what still ended afterwards keeps no process alive
    this.#idle = setTimeout(() => {
      if (this.#isAttached && !this.#link.isAtRest) {
        this.#rest();
        return;
      }
      this.#tell('leaving', { why: 'idle' });
      this.#link.close();
    }, this.#options.idleMs);
  }

  async #serve({ id, verb, input, body, signal }: Served): Promise<Answer> {
    this.#rest();
    if (body !== undefined) throw new HelperError('link-malformed', `${verb} takes no bytes`);
    const found = rowOf(verb);
    const { engine, ask } = await this.#admit(verb);
    const onEvent = (event: HelperNotes['progress']): void => this.#tell('progress', event, id);
    const call = { engine, ask, onEvent, signal };
    const work = async (): Promise<unknown> => found.perform(input, call);
    const kind = verb === 'look' ? 'look' : 'work';
    const order = found.isOrder ? ask.during(kind, { id, signal }, work) : work();
    this.#orders.add(order);
    try {
      return { output: await order };
    } finally {
      this.#orders.delete(order);
      this.#rest();
    }
  }

  /** Opens the engine. The first request must be `attach`, which may not be repeated. */
  async #admit(verb: string): Promise<Attached> {
    if (verb === 'attach' && !this.#isAttached) {
      this.#isAttached = true;
      return (this.#attached = await this.#open());
    }
    if (verb === 'attach' || this.#attached === undefined)
      throw new HelperError('link-malformed', `${verb} came out of turn`);
    return this.#attached;
  }

  async #open(): Promise<Attached> {
    const { opening, world } = this.#options;
    const { config, tray } = await opening.openForAgent();
    const ask = new AskAgent(this.#link, tray);
    const security = toldSecurity((told) => this.#tell('security', told), world.log);
    const onJournal: EngineListeners['onJournal'] = (event, state) => this.#tell('journal', { event, state });
    return { ask, engine: await openEngine(config, world, ask, { onJournal, security }) };
  }

  #hear(topic: string, content: unknown): void {
    const { data } = heardNote.safeParse(content);
    if (topic !== 'heard' || data === undefined) throw new HelperError('link-malformed', 'a note of no known form');
    this.#attached?.engine.trust.hear(data.atMs);
  }

  #tell<T extends keyof HelperNotes>(topic: T, content: HelperNotes[T], within?: number): void {
    this.#link.note(topic, content, within);
  }
}
