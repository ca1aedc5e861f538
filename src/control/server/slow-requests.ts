import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

export interface RequestDeadlines {
  /** From the connection to the last header. */
  readonly headersMs: number;
  /** From the connection to the last byte of the body; unlimited if omitted. */
  readonly requestMs?: number | undefined;
}

/**
 * Options of `createServer` that turn off Node's own timeouts, whose timer would wake the machine even without
 * connections.
 */
export const noServerTimeouts = {
  headersTimeout: 0,
  requestTimeout: 0,
  connectionsCheckingInterval: 2 ** 31 - 1,
} as const;

/**
 * Emits `clientError`, as Node would, for each connection whose request is too slow, and closes it if the request was
 * answered already. No timer runs without connections.
 * `admit` removes the deadline of a connection whose body may take longer.
 */
export function enforceRequestDeadlines(
  server: Server,
  admitted: 'connection' | 'secureConnection',
  { headersMs, requestMs }: RequestDeadlines,
): { readonly admit: (socket: Socket) => void } {
  const timers = new WeakMap<Socket, { readonly sinceMs: number; timer: NodeJS.Timeout | undefined }>();
  const refuse = (socket: Socket): void => {
    socket.on('error', () => socket.destroy());
    server.emit('clientError', Object.assign(new Error('the request is slow'), { code: REQUEST_TIMEOUT }), socket);
  };
  server.on(admitted, (socket: Socket) => {
    const timed = { sinceMs: performance.now(), timer: setTimeout(() => refuse(socket), headersMs) };
    timers.set(socket, timed);
    socket.once('close', () => clearTimeout(timed.timer));
  });
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const { socket } = request;
    const timed = timers.get(socket);
    if (timed === undefined) return;
    clearTimeout(timed.timer);
    if (requestMs === undefined || socket.destroyed) return;
    const leftMs = Math.max(0, timed.sinceMs + requestMs - performance.now());
    timed.timer = setTimeout(() => {
      if (request.complete) return;
      if (response.headersSent) socket.destroy();
      else refuse(socket);
    }, leftMs);
  });
  return { admit: (socket) => clearTimeout(timers.get(socket)?.timer) };
}

/** The code that Node uses. */
const REQUEST_TIMEOUT = 'ERR_HTTP_REQUEST_TIMEOUT';
