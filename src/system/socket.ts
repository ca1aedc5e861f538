import { once } from 'node:events';
import { isIP } from 'node:net';
import type { Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { ConnectionOptions } from 'node:tls';

import { describeError } from './errors.ts';
import { TlsFilesError } from './tls-files.ts';

/** Waits for an event of a socket. Throws the error of the socket, or the signal's reason. */
export async function waitForEvent(socket: Socket, event: string, signal: AbortSignal): Promise<void> {
  try {
    await once(socket, event, { signal });
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  }
}

/**
 * Opens TLS over a socket, and destroys the socket if that fails. Throws TlsFilesError if the certificates or the key
 * cannot be used, the error of the socket, or the signal's reason.
 */
export async function openTls(
  socket: Socket,
  peer: URL,
  { onSession, ...options }: ConnectionOptions & { readonly onSession?: (session: Buffer) => void },
  signal: AbortSignal,
): Promise<Socket> {
  const host = hostOf(peer);
  let tls: Socket | undefined;
  try {
    tls = guarded(connectTls({ ...options, socket, host, servername: isIP(host) === 0 ? host : '' }));
    if (onSession !== undefined) tls.on('session', onSession);
    await waitForEvent(tls, 'secureConnect', signal);
    return tls;
  } catch (error) {
    (tls ?? socket).destroy();
    if (tls !== undefined) throw error;
    const why = `the certificates or the key cannot be used: ${describeError(error)}`;
    throw new TlsFilesError(why, { cause: error });
  }
}

/** An alert may come after the handshake: even a destroyed socket emits it as an error, and keeps it for the next request. */
export function guarded(socket: Socket): Socket {
  return socket.on('error', (error) => socket.destroy(error));
}

/** The host of a URL, without the brackets of an IPv6 address. */
export function hostOf(url: URL): string {
  return url.hostname.replace(/^\[(.+)\]$/, '$1');
}
