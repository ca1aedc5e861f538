import type { Socket } from 'node:net';

import { brokerName, openSocket } from '../../../mqtt/open-socket.ts';
import type { Dialing } from '../../../system/dialing.ts';
import { describeError } from '../../../system/errors.ts';
import { readGuardedFile } from '../../../system/files/guarded-file.ts';
import { ServiceError } from '../../errors.ts';
import { startTls } from '../../rest/connection/connection.ts';
import type { ConnectorDeps } from '../../rest/connection/connection.ts';
import { readTlsFiles } from '../../rest/connection/tls-files.ts';
import type { MessagingSettings } from '../settings.ts';
import { socketError } from './broker-errors.ts';

/** Opens a socket for MQTT. Throws ServiceErrors, or the signal's reason. */
export async function openBrokerSocket(
  settings: Pick<MessagingSettings, 'url' | 'tls'>,
  { clock, dialing }: Pick<ConnectorDeps, 'clock'> & { readonly dialing: Dialing },
  signal: AbortSignal,
): Promise<Socket> {
  const url = new URL(settings.url);
  try {
    const files = await readTlsFiles(settings.tls, signal);
    return await openSocket(url, { dialing, startTls: (socket) => startTls(socket, url, files) }, signal);
  } catch (error) {
    signal.throwIfAborted();
    throw socketError(error, brokerName(url), clock);
  }
}

const MAX_PASSWORD_BYTES = 4_096;

/** The first line of the file, without its end. */
export async function readPassword(path: string | undefined, signal: AbortSignal): Promise<string | undefined> {
  if (path === undefined) return undefined;
  try {
    const bytes = await readGuardedFile(path, { maxBytes: MAX_PASSWORD_BYTES }, signal);
    return bytes.toString('utf8').split(/\r?\n/, 1)[0];
  } catch (error) {
    const why = `cannot read ${path}: ${describeError(error)}`;
    throw new ServiceError({ code: 'broker-password', why, cause: error });
  }
}
