import { connect as connectTcp } from 'node:net';
import type { Socket } from 'node:net';

import { hostOf, occurrence } from '../system/socket.ts';

export interface SocketDeps {
  readonly startTls: (socket: Socket) => Socket;
  /** Called with the TCP socket before anything is sent. */
  readonly onSocket?: ((socket: Socket) => void) | undefined;
}

/**
 * Opens a socket to a broker, `mqtt://` or `mqtts://`; nothing was sent on it yet. Throws the errors of node:net and
 * node:tls, or the signal's reason.
 */
export async function openSocket(url: URL, { startTls, onSocket }: SocketDeps, signal: AbortSignal): Promise<Socket> {
  const socket = connectTcp({ host: hostOf(url), port: portOf(url), keepAlive: true, noDelay: true });
  onSocket?.(socket);
  await until(socket, 'connect', signal);
  return url.protocol === 'mqtts:' ? until(startTls(socket), 'secureConnect', signal) : socket;
}

/** Waits for the event, and closes the socket after any failure. */
async function until(socket: Socket, event: string, signal: AbortSignal): Promise<Socket> {
  // an alert may come after the handshake: even a destroyed socket emits it as an error
  socket.on('error', (error) => socket.destroy(error));
  try {
    await occurrence(socket, event, signal);
    return socket;
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

/** The name of the broker in messages. */
export function brokerName(url: URL): string {
  return `${url.hostname}:${portOf(url)}`;
}

function portOf(url: URL): number {
  if (url.port !== '') return Number(url.port);
  return url.protocol === 'mqtts:' ? 8883 : 1883;
}
