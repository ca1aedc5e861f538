import { isIP } from 'node:net';
import type { Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { ConnectionOptions } from 'node:tls';

import { describeError } from './errors.ts';
import { TlsFilesError } from './tls-files.ts';

/** Waits for an event of a socket. Throws the error of the socket, or the signal's reason. */
export async function waitForEvent(socket: Socket, event: string, signal: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const onAbort = (): void => reject(signal.reason);
  socket.once(event, resolve);
  socket.once('error', reject);
  if (signal.aborted) onAbort();
  else signal.addEventListener('abort', onAbort, { once: true });
  try {
    await promise;
  } finally {
    socket.off(event, resolve);
    socket.off('error', reject);
    signal.removeEventListener('abort', onAbort);
  }
}

/** TLS over a socket. Destroys the socket and throws TlsFilesError if the certificates or the key cannot be used. */
export function wrapInTls(socket: Socket, peer: URL, options: ConnectionOptions): Socket {
  const host = hostOf(peer);
  try {
    return connectTls({ ...options, socket, host, servername: isIP(host) === 0 ? host : '' });
  } catch (error) {
    socket.destroy();
    const why = `the certificates or the key cannot be used: ${describeError(error)}`;
    throw new TlsFilesError(why, { cause: error });
  }
}

/** The host of a URL, without the brackets of an IPv6 address. */
export function hostOf(url: URL): string {
  return url.hostname.replace(/^\[(.+)\]$/, '$1');
}
