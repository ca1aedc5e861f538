import type { Socket } from 'node:net';

import { Dialing } from '../system/dialing.ts';
import { hostOf, occurrence } from '../system/socket.ts';

export interface SocketDeps {
  /** From `dialBroker`. */
  readonly dialing: Dialing;
  readonly startTls: (socket: Socket) => Socket;
}

/** The TCP connection to a broker, not opened yet. `onSocket` is called with each socket before anything is sent. */
export function dialBroker(url: URL, onSocket?: (socket: Socket) => void): Dialing {
  return new Dialing({ host: hostOf(url), port: portOf(url) }, { onSocket });
}

/**
 * Opens a socket to a broker, `mqtt://` or `mqtts://`; nothing was sent on it yet. Throws the errors of Dialing and
 * node:tls, or the signal's reason.
 */
export async function openSocket(url: URL, { dialing, startTls }: SocketDeps, signal: AbortSignal): Promise<Socket> {
  const socket = guarded(await dialing.open(signal));
  if (url.protocol !== 'mqtts:') return socket;
  const tls = guarded(startTls(socket));
  try {
    await occurrence(tls, 'secureConnect', signal);
    return tls;
  } catch (error) {
    tls.destroy();
    throw error;
  }
}

/** An alert may come after the handshake: even a destroyed socket emits it as an error. */
function guarded(socket: Socket): Socket {
  return socket.on('error', (error) => socket.destroy(error));
}

/** The name of the broker in messages. */
export function brokerName(url: URL): string {
  return `${url.hostname}:${portOf(url)}`;
}

function portOf(url: URL): number {
  if (url.port !== '') return Number(url.port);
  return url.protocol === 'mqtts:' ? 8883 : 1883;
}
