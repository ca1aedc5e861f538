import type { LookupAddress } from 'node:dns';
import { lookup } from 'node:dns/promises';
import { connect, isIP } from 'node:net';
import type { Socket, TcpNetConnectOpts } from 'node:net';

import { abortable } from './abortable.ts';
import { describeError, systemErrorCode } from './errors.ts';

/** RFC 8305, section 5, "Connection Attempt Delay". */
const ATTEMPT_DELAY_MS = 250;
/** Both families come within the first two, whatever a name server lists. */
const MAX_ADDRESSES = 16;

export interface Destination {
  /** A name or an address. */
  readonly host: string;
  readonly port: number;
}

export interface DialingDeps {
  /** Opens a socket to one address. Default: `connect` of node:net. */
  readonly open?: (options: TcpNetConnectOpts) => Socket;
  /** Called with each socket before it connects. */
  readonly onSocket?: ((socket: Socket) => void) | undefined;
  /** Default: the system's resolver. */
  readonly resolve?: (host: string) => Promise<readonly LookupAddress[]>;
}

/** No address of a host accepted a connection. `code` is the code of the most specific answer. */
export class ConnectFailure extends Error {
  readonly code: string;
  readonly answers: string;

  constructor(telling: unknown, answers: string) {
    super(`${phraseOf(telling)}${answers}`, { cause: telling });
    this.code = systemErrorCode(telling) ?? '';
    this.answers = answers;
  }
}

/**
 * Guarantee `any-address`: one TCP connection to a host that may have several addresses, after RFC 8305. An address that
 * has not answered yet stays in the race while the next one is tried. node:net drops each address but the last one after
 * 250 ms, which no connection over a slow link survives.
 */
export class Dialing {
  readonly #destination: Destination;
  readonly #deps: DialingDeps;
  /** The answer of each address, or undefined if there is none yet. */
  readonly #answers = new Map<string, unknown>();

  constructor(destination: Destination, deps: DialingDeps = {}) {
    this.#destination = destination;
    this.#deps = deps;
  }

  /** The addresses with the result of each, in parentheses; empty if there is nothing to add to the host. */
  get answers(): string {
    const { host } = this.#destination;
    if (isIP(host) !== 0) return '';
    const all = [...this.#answers].map(([address, answer]) => `${address}: ${phraseOf(answer)}`);
    return all.length === 0 ? ' (its name was not resolved)' : ` (${all.join(', ')})`;
  }

  /** Throws ConnectFailure, the error of the resolver, or the signal's reason. */
  async open(signal: AbortSignal): Promise<Socket> {
    const found = await abortable(this.#resolve(), signal);
    const addresses = alternating(found).slice(0, MAX_ADDRESSES);
    const pending = new Set<Socket>();
    const outcome = Promise.withResolvers<Socket>();
    let timer: NodeJS.Timeout | undefined;
    const tryNext = (): void => {
      clearTimeout(timer);
      const address = addresses.shift();
      if (address !== undefined) {
        pending.add(this.#attempt(address.address, outcome.resolve, onFailure));
        timer = setTimeout(tryNext, ATTEMPT_DELAY_MS);
      } else if (pending.size === 0) outcome.reject(this.#failure());
    };
    const onFailure = (socket: Socket): void => {
      pending.delete(socket);
      tryNext();
    };
    try {
      tryNext();
      const socket = await abortable(outcome.promise, signal);
      pending.delete(socket);
      return socket;
    } finally {
      clearTimeout(timer);
      for (const socket of pending) socket.destroy();
    }
  }

  async #resolve(): Promise<readonly LookupAddress[]> {
    const { host } = this.#destination;
    const { resolve = async (name) => lookup(name, { all: true }) } = this.#deps;
    const question = questions.get(host) ?? resolve(host).finally(() => questions.delete(host));
    questions.set(host, question);
    return question;
  }

  #attempt(address: string, onConnected: (socket: Socket) => void, onFailure: (socket: Socket) => void): Socket {
    const { open = connect, onSocket } = this.#deps;
    const { port } = this.#destination;
    this.#answers.set(address, undefined);
    const socket = open({ host: address, port, keepAlive: true, keepAliveInitialDelay, noDelay: true });
    onSocket?.(socket);
    const onError = (error: Error): void => {
      this.#answers.set(address, error);
      onFailure(socket);
    };
    socket.once('error', onError);
    socket.once('connect', () => {
      this.#answers.set(address, 'connected');
      socket.off('error', onError);
      onConnected(socket);
    });
    return socket;
  }

  #failure(): ConnectFailure {
    const errors = [...this.#answers.values()];
    const telling = errors.find((error) => !unroutable.has(systemErrorCode(error) ?? '')) ?? errors[0];
    return new ConnectFailure(telling, this.answers);
  }
}

const keepAliveInitialDelay = 60_000;

/** Without a way to the network of an address, another address may still be reached. */
const unroutable: ReadonlySet<string> = new Set(['ENETUNREACH', 'EHOSTUNREACH', 'ENETDOWN', 'EADDRNOTAVAIL']);

function phraseOf(answer: unknown): string {
  if (answer === undefined) return 'no answer';
  if (typeof answer === 'string') return answer;
  const code = systemErrorCode(answer) ?? '';
  if (unroutable.has(code)) return 'cannot be reached';
  return phrases[code] ?? describeError(answer);
}

const phrases: Readonly<Record<string, string>> = { ECONNREFUSED: 'refused the connection', ETIMEDOUT: 'no answer' };

/** RFC 8305, section 4: the families take turns, in the resolver's order. */
function alternating(addresses: readonly LookupAddress[]): LookupAddress[] {
  const first = addresses.filter(({ family }) => family === addresses[0]?.family);
  const second = addresses.filter(({ family }) => family !== addresses[0]?.family);
  const longest = Math.max(first.length, second.length);
  return Array.from({ length: longest }, (_, index) => [first[index], second[index]])
    .flat()
    .filter((address) => address !== undefined);
}

/** Open questions by name. Each takes a thread until the resolver answers, which may be long after our deadline. */
const questions = new Map<string, Promise<readonly LookupAddress[]>>();
