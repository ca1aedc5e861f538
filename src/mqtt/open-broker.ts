import type { Socket } from 'node:net';

import { Dialing } from '../system/dialing.ts';
import { describeError } from '../system/errors.ts';
import { readProtectedFile } from '../system/files/protected-file.ts';
import { guarded, hostOf, openTls } from '../system/socket.ts';
import { readTlsFiles } from '../system/tls-files.ts';
import type { TlsFiles } from '../system/tls-files.ts';
import { MqttConnection } from './connection.ts';
import type { ConnectionDeps, ConnectOptions } from './connection.ts';
import { PasswordError } from './errors.ts';

/** The broker's address, and our login. The files are read for each connection, so that they can be replaced. */
export interface BrokerLogin extends TlsFiles {
  /** `mqtt://` or `mqtts://` */
  readonly url: string;
  readonly username: string | undefined;
  readonly passwordFile: string | undefined;
}

export interface BrokerDeps extends Omit<ConnectionDeps, 'connect'> {
  readonly connect: Omit<ConnectOptions, 'username' | 'password'>;
  /** From `dialBroker`. */
  readonly dialing: Dialing;
}

/** The TCP connection to a broker, not opened yet. `onSocket` is called with each socket before anything is sent. */
export function dialBroker(url: string, onSocket?: (socket: Socket) => void): Dialing {
  const { host, port } = placeOf(url);
  return new Dialing({ host, port }, { onSocket });
}

/**
 * Resolves when the broker has accepted us. Throws PasswordError, TlsFilesError, the errors of Dialing and node:tls, the
 * reason for which the connection ended, or the signal's reason.
 */
export async function openBroker(
  { url, username, passwordFile, ...tlsFiles }: BrokerLogin,
  { dialing, connect, ...deps }: BrokerDeps,
  signal: AbortSignal,
): Promise<MqttConnection> {
  const password = passwordFile === undefined ? undefined : await readPassword(passwordFile, signal);
  const login = { ...(username === undefined ? {} : { username }), ...(password === undefined ? {} : { password }) };
  const socket = await openSocket(new URL(url), tlsFiles, dialing, signal);
  return MqttConnection.open(socket, { ...deps, connect: { ...connect, ...login } }, signal);
}

async function openSocket(url: URL, tlsFiles: TlsFiles, dialing: Dialing, signal: AbortSignal): Promise<Socket> {
  const isSecure = url.protocol === 'mqtts:';
  const files = isSecure ? await readTlsFiles(tlsFiles, signal) : {};
  const socket = guarded(await dialing.open(signal));
  return isSecure ? openTls(socket, url, files, signal) : socket;
}

const MAX_PASSWORD_BYTES = 4_096;

/** Returns the first line of the file, without its end. */
async function readPassword(path: string, signal: AbortSignal): Promise<string | undefined> {
  try {
    const bytes = await readProtectedFile(path, { maxBytes: MAX_PASSWORD_BYTES }, signal);
    return new TextDecoder().decode(bytes).split(/\r?\n/, 1)[0];
  } catch (error) {
    signal.throwIfAborted();
    throw new PasswordError(`cannot read ${path}: ${describeError(error)}`, { cause: error });
  }
}

/** The name of the broker in messages. */
export function brokerName(url: string): string {
  const { shownHost, port } = placeOf(url);
  return `${shownHost}:${port}`;
}

function placeOf(address: string): { readonly host: string; readonly shownHost: string; readonly port: number } {
  const url = new URL(address);
  const usualPort = url.protocol === 'mqtts:' ? 8883 : 1883;
  return { host: hostOf(url), shownHost: url.hostname, port: url.port === '' ? usualPort : Number(url.port) };
}
