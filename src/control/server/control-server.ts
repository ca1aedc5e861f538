import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';

import * as z from 'zod';

import { AgentError, describeError, systemErrorCode } from '../../system/errors.ts';
import { parseExactly } from '../../system/json-value.ts';
import type { Log } from '../../system/log/log.ts';
import { Deadline } from '../../system/time/deadline.ts';
import { permitted, socketNames } from '../access.ts';
import type { Caller } from '../access.ts';
import {
  agentStopping,
  ControlRequestError,
  httpStatus,
  reportError,
  ControlError,
  requestTooLarge,
} from '../control-errors.ts';
import type { OnEvent } from '../events.ts';
import { findOperation, methodOf, queryOf, readInput } from '../find-operation.ts';
import type { FoundOperation } from '../find-operation.ts';
import { agentMetrics } from '../metrics/agent-metrics.ts';
import { openMetrics, openMetricsType } from '../metrics/render-metrics.ts';
import { controlLimits, type ControlLimits } from './control-limits.ts';
import { endResponse, EventStream } from './event-stream.ts';
import { answer, follow } from './perform.ts';
import type { IncomingRequest, Performer } from './perform.ts';
import { readBody } from './read-body.ts';
import { SelfHealingSocket } from './self-healing-socket.ts';
import { SentFile } from './sent-file.ts';
import { enforceRequestDeadlines, noServerTimeouts } from './slow-requests.ts';

export interface ControlServerDeps extends Performer {
  readonly runDirectory: string;
  /** The properties that members may read and write; called for each request. */
  readonly memberProperties: () => readonly string[];
  /** Called when this caller requested an operation without permission. */
  readonly onDenied?: (caller: Caller, operation: string) => void;
  readonly log: Log;
  readonly limits?: Partial<ControlLimits>;
}

/**
 * Starts to serve the sockets of the run directory (access.ts). The signal is the daemon's: once it is aborted,
 * requests end with `agent-stopping`. Disposing removes the sockets and waits briefly for open connections.
 */
export async function startControlServer(deps: ControlServerDeps, signal: AbortSignal): Promise<AsyncDisposableStack> {
  await using opened = new AsyncDisposableStack();
  const callers = ['members', 'operators', 'root'] as const;
  const servers = callers.map((caller) => opened.use(new ControlServer(caller, deps, signal)));
  // all have started, or failed to, before one of them is disposed of
  const started = await Promise.allSettled(servers.map(async (server) => server.start()));
  const failed = started.find((start) => start.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
  return opened.move();
}

/** One socket and its caller. */
class ControlServer implements AsyncDisposable {
  readonly #caller: Caller;
  readonly #deps: ControlServerDeps;
  readonly #limits: ControlLimits;
  readonly #signal: AbortSignal;
  readonly #server: Server;
  readonly #socket: SelfHealingSocket;
  /** Connections whose request has no place yet, oldest first. */
  readonly #waiting = new Set<Socket>();
  readonly #slow: ReturnType<typeof enforceRequestDeadlines>;
  readonly #served = { answered: 0, followed: 0 };

  constructor(caller: Caller, deps: ControlServerDeps, signal: AbortSignal) {
    this.#caller = caller;
    this.#deps = deps;
    this.#limits = { ...controlLimits, ...deps.limits };
    this.#signal = signal;
    this.#server = createServer({ maxHeaderSize: this.#limits.maxHeaderBytes, ...noServerTimeouts });
    this.#slow = enforceRequestDeadlines(this.#server, 'connection', this.#limits);
    this.#server.maxRequestsPerSocket = 1;
    this.#server.on('connection', (socket: Socket) => this.#admit(socket));
    this.#server.on('request', (request, response) => void this.#serve(request, response));
    this.#server.on('clientError', refuseUnreadable);
    const path = join(deps.runDirectory, socketNames[caller]);
    this.#socket = new SelfHealingSocket(this.#server, { path, caller, checkMs: this.#limits.checkMs, log: deps.log });
  }

  async start(): Promise<void> {
    await this.#socket.listen();
    this.#server.on('error', (error) => this.#deps.log.error({ error: describeError(error) }, 'control socket'));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#socket[Symbol.asyncDispose]();
    const closed = Promise.withResolvers<void>();
    this.#server.close(() => closed.resolve());
    const timer = setTimeout(() => this.#server.closeAllConnections(), this.#limits.closingMs);
    await closed.promise;
    clearTimeout(timer);
  }

  /** Limits connections whose request has no place, so that idle and refused ones do not block callers. */
  #admit(socket: Socket): void {
    this.#waiting.add(socket);
    socket.once('close', () => this.#waiting.delete(socket));
    const [oldest] = this.#waiting;
    if (this.#waiting.size > this.#limits.maxWaiting) oldest?.destroy();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.setHeader('connection', 'close');
    response.on('error', () => response.destroy()); // the client disconnected
    let file: SentFile | undefined;
    try {
      if (isMetricsRequest(request)) return await this.#answerMetrics(request, response);
      const found = findOperation(request.method ?? '', request.url ?? '');
      file = found.entry.takesFile === true ? new SentFile(request, this.#limits) : undefined;
      const members =
        file === undefined ? await readJson(request, this.#limits.maxBodyBytes) : queryOf(request.url ?? '');
      const read = readInput(found, members);
      const input = this.#permitted(found, file === undefined ? read : { ...read, file });
      this.#note(found, input);
      using _place = this.#takePlace(request, 'output' in found.entry ? 'answered' : 'followed');
      const { entry } = found;
      if ('output' in entry) {
        await this.#answer(response, file, async (signal) =>
          json(await answer(this.#deps, { ...found, entry, input }, signal)),
        );
      } else await this.#follow({ ...found, input }, response, file);
    } catch (error) {
      if (response.destroyed) return;
      const reason = this.#reasonOf(error);
      await this.#send(response, httpStatus(reason), json({ error: reportError(reason) }), file);
    }
  }

  #permitted(found: FoundOperation, input: object): object {
    try {
      return permitted(this.#caller, found, input, this.#deps.memberProperties());
    } catch (error) {
      this.#deps.onDenied?.(this.#caller, found.name);
      throw error;
    }
  }

  /** A connection waits, with a deadline, until its request has a place: refused requests count, too. */
  #takePlace({ socket }: IncomingMessage, kind: 'answered' | 'followed'): Disposable {
    const served = this.#served;
    if (served[kind] >= this.#limits.maxAtOnce) {
      throw new ControlError('control-overloaded', `the daemon is already serving ${served[kind]} requests`);
    }
    served[kind] += 1;
    this.#waiting.delete(socket);
    this.#slow.admit(socket);
    return { [Symbol.dispose]: () => void (served[kind] -= 1) };
  }

  /** Every caller may read the metrics: they only contain data of `status` and `history`. */
  async #answerMetrics(request: IncomingMessage, response: ServerResponse): Promise<void> {
    using _place = this.#takePlace(request, 'answered');
    await this.#answer(response, undefined, async (signal) => ({
      type: openMetricsType,
      text: openMetrics(await agentMetrics(this.#deps.operations, signal)),
    }));
  }

  async #answer(
    response: ServerResponse,
    file: SentFile | undefined,
    work: (signal: AbortSignal) => Promise<Reply>,
  ): Promise<void> {
    this.#signal.throwIfAborted();
    const gone = new AbortController();
    response.once('close', () => gone.abort(clientGone));
    using deadline = new Deadline(this.#limits.answerMs, answerTimeout, this.#signal);
    await this.#send(response, 200, await work(AbortSignal.any([deadline.signal, gone.signal])), file);
  }

  async #follow(asked: IncomingRequest, response: ServerResponse, file: SentFile | undefined): Promise<void> {
    const gone = new AbortController();
    response.once('close', () => gone.abort(clientGone));
    using stream = new EventStream(response, this.#limits);
    try {
      const onEvent: OnEvent = (event) => stream.send({ kind: 'event', event });
      const outcome = await follow(this.#deps, asked, onEvent, gone.signal);
      await stream.end({ kind: 'result', outcome }, file);
    } catch (error) {
      await stream.end({ kind: 'error', error: reportError(this.#reasonOf(error)) }, file);
    }
  }

  async #send(response: ServerResponse, status: number, { type, text }: Reply, file?: SentFile): Promise<void> {
    const length = Buffer.byteLength(text); // shows the end of the reply to a client that is still sending a file
    response.writeHead(status, { 'content-type': type, 'content-length': length, 'cache-control': 'no-store' });
    response.write(text);
    await endResponse(response, this.#limits.stalledMs, file);
  }

  #note({ name, entry }: FoundOperation, input: object): void {
    if (methodOf(entry) === 'GET') return;
    const { path, board, force, version } = noted.parse(input);
    this.#deps.log.info(
      { caller: this.#caller, operation: name, path, board, version, force },
      'request on the control socket',
    );
  }

  /**
   * Returns the error for the client. A defect is only logged; while the daemon stops, the error is `agent-stopping`.
   */
  #reasonOf(error: unknown): unknown {
    if (error instanceof AgentError) return error;
    if (this.#signal.aborted && error === this.#signal.reason) return agentStopping();
    if (error !== clientGone) this.#deps.log.error({ error: describeError(error) }, 'a request failed unexpectedly');
    return error;
  }
}

interface Reply {
  readonly type: string;
  readonly text: string;
}

function json(value: object): Reply {
  return { type: 'application/json', text: `${JSON.stringify(value)}\n` };
}

/**
 * True if this is a request for the metrics, which are outside `/v1/`, where monitoring expects them. Throws
 * `control-method-wrong`.
 */
function isMetricsRequest({ method, url = '' }: IncomingMessage): boolean {
  if (url.split('?', 1)[0] !== '/metrics') return false;
  if (method === 'GET') return true;
  throw new ControlRequestError(405, 'control-method-wrong', 'this path accepts GET');
}

/** The inputs that are logged; values are never logged. */
const noted = z.object({
  path: z.string().optional(),
  board: z.string().optional(),
  version: z.string().optional(),
  force: z.boolean().optional(),
});

const clientGone = new Error('the client disconnected');

function answerTimeout(): ControlError {
  return new ControlError('answer-timeout', 'the daemon did not finish in time');
}

async function readJson(request: IncomingMessage, maxBytes: number): Promise<unknown> {
  const text = await readBody(request, maxBytes);
  if (text === undefined) throw requestTooLarge(maxBytes);
  if (text === '') return undefined;
  const value = parseExactly(text);
  if (value === undefined) throw new ControlRequestError(400, 'control-request-invalid', 'not JSON');
  return value;
}

/**
 * Replies to a request that is not HTTP, too large or too slow. It never becomes a request of node:http, so the reply
 * goes directly to the connection.
 */
function refuseUnreadable(error: Error, socket: Duplex): void {
  if (!socket.writable || systemErrorCode(error) === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const [status, code, message] = unreadable(systemErrorCode(error));
  const body = `${JSON.stringify({ error: { code, message, exit: 'usage' } })}\n`;
  const head = `HTTP/1.1 ${status}\r\nconnection: close\r\ncontent-type: application/json\r\n`;
  socket.end(`${head}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`, () => socket.destroy());
}

function unreadable(code: string | undefined): readonly [string, string, string] {
  if (code === 'HPE_HEADER_OVERFLOW') {
    return ['431 Request Header Fields Too Large', 'control-request-too-large', 'the headers are too large'];
  }
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return ['408 Request Timeout', 'control-request-slow', 'the request was not received in time'];
  }
  return ['400 Bad Request', 'control-request-invalid', 'not HTTP/1.1'];
}
