import { readFile } from 'node:fs/promises';
import { connect as connectTcp } from 'node:net';
import type { Socket } from 'node:net';

import type { Clock } from '../../../system/clock.ts';
import { describeError } from '../../../system/errors.ts';
import { ServiceError } from '../../errors.ts';
import { hostOf, occurrence, startTls } from '../../rest/connection.ts';
import { readTlsFiles } from '../../rest/tls-files.ts';
import type { TlsMaterial } from '../../rest/tls-files.ts';
import type { MessagingSettings } from '../settings.ts';
import { socketError } from './broker-errors.ts';

/** A socket on which MQTT can be spoken. Throws ServiceErrors, or the signal's reason. */
export async function openBrokerSocket(
  settings: Pick<MessagingSettings, 'url' | 'tls'>,
  clock: Pick<Clock, 'nowMs'>,
  signal: AbortSignal,
): Promise<Socket> {
  const url = new URL(settings.url);
  try {
    return await open(url, await readTlsFiles(settings.tls), signal);
  } catch (error) {
    signal.throwIfAborted();
    throw socketError(error, brokerName(url), clock);
  }
}

async function open(url: URL, files: TlsMaterial, signal: AbortSignal): Promise<Socket> {
  const socket = connectTcp({ host: hostOf(url), port: portOf(url), keepAlive: true, noDelay: true });
  await until(socket, 'connect', signal);
  return url.protocol === 'mqtts:' ? until(startTls(socket, url, files), 'secureConnect', signal) : socket;
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

/** The first line of the file, without its end. */
export async function readPassword(path: string | undefined): Promise<string | undefined> {
  if (path === undefined) return undefined;
  try {
    return (await readFile(path, 'utf8')).split(/\r?\n/, 1)[0];
  } catch (error) {
    const why = `cannot read ${path}: ${describeError(error)}`;
    throw new ServiceError({ code: 'broker-password', why, cause: error });
  }
}
