import { connect as connectTcp } from 'node:net';
import type { Socket } from 'node:net';

import { hostOf, occurrence } from '../system/socket.ts';

export interface SocketParts {
  readonly startTls: (socket: Socket) => Socket;
  /** Told of the one of TCP, before anything is said. */
  readonly onSocket?: ((socket: Socket) => void) | undefined;
}

/**
 * A socket to a broker, `mqtt://` or `mqtts://`, on which nothing was said yet. Throws what node:net and node:tls throw, or
 * the signal's reason.
 */
export async function openSocket(url: URL, { startTls, onSocket }: SocketParts, signal: AbortSignal): Promise<Socket> {
  const socket = connectTcp({ host: hostOf(url), port: portOf(url), keepAlive: true, noDelay: true });
  onSocket?.(socket);
  await until(socket, 'connect', signal);
  return url.protocol === 'mqtts:' ? until(startTls(socket), 'secureConnect', signal) : socket;
}

/** Whatever goes wrong, the socket does not stay open. */
async function until(socket: Socket, event: string, signal: AbortSignal): Promise<Socket> {
  // an alert may come after the handshake: a destroyed socket still tells it
  socket.on('error', (error) => socket.destroy(error));
  try {
    await occurrence(socket, event, signal);
    return socket;
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

/** For messages. */
export function brokerName(url: URL): string {
  return `${url.hostname}:${portOf(url)}`;
}

function portOf(url: URL): number {
  if (url.port !== '') return Number(url.port);
  return url.protocol === 'mqtts:' ? 8883 : 1883;
}
