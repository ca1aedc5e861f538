import { callbackify } from 'node:util';

import type { Dispatcher } from 'undici';
import type Pool from 'undici/lib/dispatcher/pool.js';

import type { Clock } from '../../system/time/clock.ts';
import type { TransportDeps } from '../contract.ts';
import { malformed } from '../replies.ts';
import { Connector } from './connection/connection.ts';
import { proxyAuthorization } from './connection/proxy.ts';
import { translateTransportError } from './connection/transport-errors.ts';
import { Exchange } from './exchange.ts';
import { maxConnections } from './settings.ts';
import type { RestSettings } from './settings.ts';

export interface HttpRequest {
  /** The name of the operation for messages. */
  readonly operation: string;
  readonly method: 'GET' | 'PUT' | 'POST';
  /** The path behind the base address, with a leading slash. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
}

/**
 * An HTTP/1.1 client of one origin, on undici. Redirects are not followed: they would send the API key to an
 * unconfigured server, and interface.md has none.
 */
export class HttpClient implements AsyncDisposable {
  readonly #base: URL;
  readonly #settings: RestSettings;
  readonly #clock: Pick<Clock, 'nowMs'>;
  readonly #connector: Connector;
  readonly #ordinaryHeaders: Readonly<Record<string, string>>;
  readonly #life = new AbortController();
  #pool: Promise<Pool> | undefined;

  constructor(settings: RestSettings, deps: Pick<TransportDeps, 'clock' | 'traffic'>) {
    this.#base = new URL(settings.url);
    this.#settings = settings;
    this.#clock = deps.clock;
    this.#connector = new Connector(this.#base, settings, deps);
    this.#ordinaryHeaders = {
      'user-agent': settings.userAgent,
      // a compressed text could not be continued at a byte of our choice
      'accept-encoding': 'identity',
      ...forwardingHeaders(this.#base, this.#connector.forwardingProxy),
    };
  }

  /** Returns host and path of a request, for messages. */
  placeOf({ path }: Pick<HttpRequest, 'path'>): string {
    return `${this.#base.host}${this.#pathOf(path)}`;
  }

  #pathOf(path: string): string {
    return `${this.#base.pathname.replace(/(?<!\/)\/+$/, '')}${path}`;
  }

  /** Opens a connection and closes it. Throws a ServiceError if none comes about. */
  async reach(signal: AbortSignal): Promise<void> {
    const socket = await this.#connector.open(signal);
    socket.destroy();
  }

  /** Sends a request. Resolves when the head of the reply has arrived, whatever its status. Dispose the exchange. */
  async send(request: HttpRequest, signal: AbortSignal): Promise<Exchange> {
    const { operation, method, body } = request;
    const pool = await (this.#pool ??= this.#openPool());
    const exchange = new Exchange((error) => this.#translate(error, operation), signal);
    const path = this.#pathOf(request.path);
    const options: Dispatcher.DispatchOptions = {
      method,
      path: this.#connector.forwardingProxy === undefined ? path : `${this.#base.origin}${path}`,
      headers: { ...this.#ordinaryHeaders, ...request.headers },
      ...(body === undefined ? {} : { body }),
    };
    pool.dispatch(options, exchange);
    await exchange.answered();
    const encoding = exchange.header('content-encoding') ?? 'identity';
    if (encoding === 'identity') return exchange;
    await exchange[Symbol.asyncDispose]();
    throw malformed(operation, `the reply has a Content-Encoding (${encoding}) that was not asked for`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#life.abort(new Error('the connection to the service is closed'));
    const pool = await this.#pool;
    await pool?.destroy();
  }

  #translate(error: unknown, operation: string): ReturnType<typeof translateTransportError> {
    return translateTransportError(error, this.#connector.servicePeer, this.#clock).during(operation);
  }

  /** Opens the pool, and loads undici only now. */
  async #openPool(): Promise<Pool> {
    const { default: UndiciPool } = await import('undici/lib/dispatcher/pool.js');
    const { firstByteMs, idleMs } = this.#settings.deadlines;
    const open = callbackify(async () => this.#connector.open(this.#life.signal));
    return new UndiciPool((this.#connector.forwardingProxy ?? this.#base).origin, {
      connections: maxConnections,
      pipelining: 1,
      allowH2: false,
      headersTimeout: firstByteMs,
      bodyTimeout: idleMs,
      connect: (_options, callback) => {
        open((error, socket) => (error === null ? callback(null, socket) : callback(error, null)));
      },
    });
  }
}

/** Headers of a request with a whole address, as a proxy needs it (RFC 9112, section 3.2.2). */
function forwardingHeaders(service: URL, proxy: URL | undefined): Readonly<Record<string, string>> {
  if (proxy === undefined) return {};
  const authorization = proxyAuthorization(proxy);
  return { host: service.host, ...(authorization === undefined ? {} : { 'proxy-authorization': authorization }) };
}
