import { request as httpRequest } from 'node:http';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';

import { ServiceError } from '../../errors.ts';
import { proxyAuthorization } from './proxy.ts';

/**
 * Asks the proxy at the other end of the socket for a tunnel to `authority` (`host:port`; RFC 9110, section 9.3.6).
 * Throws the socket's error, or a ServiceError if the proxy refuses.
 */
export async function openTunnel(socket: Socket, authority: string, proxy: URL, signal: AbortSignal): Promise<void> {
  const authorization = proxyAuthorization(proxy);
  const headers = { host: authority, ...(authorization === undefined ? {} : { 'proxy-authorization': authorization }) };
  const request = httpRequest({ method: 'CONNECT', path: authority, headers, createConnection: () => socket, signal });
  const status = await new Promise<number>((resolve, reject) => {
    request.once('error', reject);
    request.once('connect', (reply: IncomingMessage, _socket: unknown, head: Buffer) => {
      if (head.byteLength > 0) socket.unshift(head);
      resolve(reply.statusCode ?? 0);
    });
    request.end();
  });
  if (status >= 200 && status < 300) return;
  throw new ServiceError({
    code: status === 407 ? 'proxy-authentication' : 'proxy-refused',
    why: `the proxy ${proxy.host} gives no way to ${authority} (status ${status})`,
  });
}
