import { once } from 'node:events';
import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';

import { endResponse } from '../control/server/event-stream.ts';
import { SelfHealingSocket } from '../control/server/self-healing-socket.ts';
import { enforceRequestDeadlines, noServerTimeouts } from '../control/server/slow-requests.ts';
import { describeError } from '../system/errors.ts';
import { AccessControl } from './access/access-control.ts';
import { addressOf, Shares } from './access/shares.ts';
import { Actions } from './act/actions.ts';
import { Uploads } from './act/upload.ts';
import { readAssets } from './assets.ts';
import type { Assets } from './assets.ts';
import { LiveUpdates } from './live/live-updates.ts';
import type { PageDeps } from './page-deps.ts';
import { PageError, readPageFile } from './page-errors.ts';
import { pageLimits } from './page-limits.ts';
import type { PageLimits } from './page-limits.ts';
import { Routes } from './routes.ts';
import type { ListenAddress } from './settings.ts';

/** The limits are the usual ones, except those given. */
export interface PageServerDeps extends Omit<PageDeps, 'place' | 'limits'> {
  readonly limits?: Partial<PageLimits>;
}

/**
 * The page is never stored, framed or composed of foreign content. Another page learns nothing of it, not even its
 * address.
 */
const headers = {
  'content-security-policy':
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; " +
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
  'x-frame-options': 'DENY',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'same-origin',
  'cache-control': 'no-store',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'cross-origin-embedder-policy': 'require-corp',
  'permissions-policy': 'camera=(), geolocation=(), microphone=(), usb=(), serial=()',
} as const;

const MAX_PEM_BYTES = 256 * 1024;
const LOOK_MS = 100_000; // as the control sockets, in the same wake-up

/** Serves the page where the settings say, until it is disposed. Throws PageError. */
export async function startPage({ limits, ...others }: PageServerDeps, place: ListenAddress): Promise<AsyncDisposable> {
  const deps: PageDeps = { ...others, place, limits: { ...pageLimits, ...limits } };
  const server = new PageServer(deps, await openServer(deps), await AccessControl.open(deps), await readAssets());
  try {
    await server.start();
    return server;
  } catch (error) {
    await server[Symbol.asyncDispose]();
    throw error;
  }
}

async function openServer({ settings, limits }: PageDeps): Promise<Server> {
  const { maxHeaderBytes, headersMs } = limits;
  const bounds = { maxHeaderSize: maxHeaderBytes, ...noServerTimeouts };
  const { certificateFile, keyFile, clientCaFile } = settings;
  const files = [certificateFile, keyFile, clientCaFile];
  const [cert, key, ca] = await Promise.all(
    files.map(async (path) => (path === undefined ? undefined : readPageFile(path, MAX_PEM_BYTES))),
  );
  if (cert === undefined) return createServer(bounds);
  const { createServer: createTlsServer } = await import('node:https');
  const asked = ca === undefined ? {} : { ca, requestCert: true, rejectUnauthorized: true };
  try {
    return createTlsServer({ ...bounds, cert, key, ...asked, minVersion: 'TLSv1.2', handshakeTimeout: headersMs });
  } catch (error) {
    throw new PageError('web-files-invalid', `the certificate cannot be used: ${describeError(error)}`, {
      cause: error,
    });
  }
}

class PageServer implements AsyncDisposable {
  readonly #deps: PageDeps;
  readonly #server: Server;
  readonly #news: LiveUpdates;
  readonly #routes: Routes;
  readonly #files: Uploads;
  readonly #connections: Shares<Socket>;
  /** Connections without a complete request yet. */
  readonly #waiting: Shares<Socket>;
  #socket: SelfHealingSocket | undefined;

  constructor(deps: PageDeps, server: Server, door: AccessControl, assets: Assets) {
    const { limits } = deps;
    this.#deps = deps;
    this.#server = server;
    this.#news = new LiveUpdates(deps);
    this.#files = new Uploads(deps.stateDirectory, limits);
    this.#connections = new Shares(limits.maxConnections, 'newest');
    this.#waiting = new Shares(limits.maxWaiting, 'oldest');
    const asked = ({ socket }: IncomingMessage): void => this.#waiting.delete(addressOf(socket), underTls(socket));
    const acting = { orders: new Actions(deps), files: this.#files };
    this.#routes = new Routes({ ...deps, ...acting, door, assets, news: this.#news, asked });
    server.maxRequestsPerSocket = 1;
    const isTls = deps.settings.certificateFile !== undefined;
    server.on('connection', (socket: Socket) => this.#admit(socket));
    // no deadline for the body here: a file takes its time, and a form has its own deadline
    enforceRequestDeadlines(server, isTls ? 'secureConnection' : 'connection', limits);
    server.on('request', (request, response) => void this.#serve(request, response));
    server.on('clientError', (_error, socket) => void socket.destroy());
  }

  async start(): Promise<void> {
    try {
      await this.#files.clear();
      await this.#listen();
    } catch (error) {
      throw new PageError('page-unavailable', `it cannot listen: ${describeError(error)}`, { cause: error });
    }
    this.#server.on('error', (error) => this.#deps.log.error({ error: describeError(error) }, 'the web UI failed'));
    this.#news.start();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#socket?.[Symbol.asyncDispose]();
    await this.#news[Symbol.asyncDispose]();
    if (!this.#server.listening) return;
    const closed = Promise.withResolvers<void>();
    this.#server.close(() => closed.resolve());
    const timer = setTimeout(() => this.#server.closeAllConnections(), this.#deps.limits.closingMs);
    await closed.promise;
    clearTimeout(timer);
  }

  async #listen(): Promise<void> {
    const { place, log } = this.#deps;
    if (place.kind === 'socket') {
      this.#socket = new SelfHealingSocket(this.#server, {
        path: place.path,
        caller: 'members',
        checkMs: LOOK_MS,
        log,
      });
      return this.#socket.listen();
    }
    const listening = once(this.#server, 'listening');
    this.#server.listen({ host: place.host, port: place.port, ipv6Only: false });
    await listening;
  }

  /**
   * Limits connections, and connections without a complete request, so that idle or endless ones do not block others.
   */
  #admit(socket: Socket): void {
    const address = addressOf(socket); // a closed connection has none
    socket.once('close', () => {
      this.#connections.delete(address, socket);
      this.#waiting.delete(address, socket);
    });
    for (const shares of [this.#connections, this.#waiting]) shares.add(address, socket)?.destroy();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    response.setHeader('connection', 'close');
    response.on('error', () => response.destroy()); // the client went away
    const reply = await this.#routes.answer(request, response);
    if (reply === undefined || response.destroyed) return;
    const { status, type, body, more } = reply;
    response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(body), ...more });
    response.write(body);
    await endResponse(response, this.#deps.limits.stalledMs);
  }
}

/** Returns the connection under a TLS connection. Node has no public name for it. */
function underTls(socket: Socket): Socket {
  const under: unknown = socket instanceof TLSSocket ? Reflect.get(socket, '_parent') : socket;
  return under instanceof Socket ? under : socket;
}
