import { isIP } from 'node:net';
import type { Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { ConnectionOptions } from 'node:tls';

/** The event, or what the socket failed with, or the signal's reason. */
export async function occurrence(socket: Socket, event: string, signal: AbortSignal): Promise<void> {
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

/** TLS over this socket, which is destroyed where the certificates cannot be used: node:tls throws for them. */
export function secured(socket: Socket, peer: URL, options: ConnectionOptions): Socket {
  const host = hostOf(peer);
  try {
    return connectTls({ ...options, socket, host, servername: isIP(host) === 0 ? host : '' });
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

/** Without the brackets of an IPv6 address. */
export function hostOf(url: URL): string {
  return url.hostname.replace(/^\[(.+)\]$/, '$1');
}
