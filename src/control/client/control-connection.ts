import { access } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import type { ClientRequest, IncomingMessage } from 'node:http';
import { promisify } from 'node:util';

import { abortable } from '../../system/abortable.ts';
import { AgentError, describeError, systemErrorCode } from '../../system/errors.ts';
import type { FileContent } from '../../system/files/opened-file.ts';
import { ControlError, isNotPermitted, isUnresponsive } from '../control-errors.ts';

export interface ControlRequest {
  readonly method: string;
  /** The path after `/v1/`. */
  readonly path: string;
  readonly body?: unknown;
  /** Sent as the body instead of JSON. */
  readonly file?: FileContent | undefined;
  /** The idle timeout, and the timeout of the whole reply, or of the headers of a reply that is a stream of lines. */
  readonly timeoutMs: number;
  readonly isFollowed?: boolean;
}

/** Sends one request to the daemon on a new connection; `read` consumes the reply as it arrives. */
export async function exchange<T>(
  socketPath: string,
  asked: ControlRequest,
  read: (reply: IncomingMessage) => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  signal.throwIfAborted();
  const { file } = asked;
  const body = asked.body === undefined ? undefined : JSON.stringify(asked.body);
  const request = httpRequest({
    socketPath,
    agent: false,
    method: asked.method,
    path: `/v1/${asked.path}`,
    headers: {
      host: 'agent',
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(file !== undefined && { 'content-type': 'application/octet-stream' }),
      ...(file?.sizeBytes !== undefined && { 'content-length': file.sizeBytes }),
    },
  });
  const replied = Promise.withResolvers<IncomingMessage>();
  let open: { destroy(error: Error): void } = request;
  const cut = (): void => open.destroy(new Error('aborted'));
  const ended = new AbortController();
  let sent: Promise<void> | undefined;
  request.on('error', replied.reject);
  request.on('response', replied.resolve);
  request.setTimeout(asked.timeoutMs, () => open.destroy(unresponsive()));
  // a reply that arrives byte by byte never triggers the idle timeout
  const late = setTimeout(() => open.destroy(unresponsive()), asked.timeoutMs);
  signal.addEventListener('abort', cut, { once: true });
  try {
    if (file === undefined) request.end(body);
    else sent = send(file, request, (error) => open.destroy(error), ended.signal);
    const reply = await replied.promise;
    open = reply;
    if (asked.isFollowed === true) clearTimeout(late);
    return await read(reply);
  } catch (error) {
    signal.throwIfAborted();
    throw translate(error, socketPath);
  } finally {
    clearTimeout(late);
    signal.removeEventListener('abort', cut);
    request.destroy();
    ended.abort();
    await sent;
  }
}

/** Sends a file as far as the daemon accepts it; the reply contains the reason if it stops. */
async function send(
  file: FileContent,
  request: ClientRequest,
  onFailure: (error: AgentError) => void,
  signal: AbortSignal,
): Promise<void> {
  const write = promisify((chunk: Uint8Array, then: (error?: Error | null) => void) => request.write(chunk, then));
  try {
    for await (const chunk of file.read(signal)) await abortable(write(chunk), signal);
    request.end();
  } catch (error) {
    if (error instanceof AgentError) onFailure(error);
  }
}

/**
 * True if a daemon responds on the socket. A connection alone proves nothing, since the system also accepts it for a
 * stopped process. So this requests a path that does not exist; any reply counts. Throws `daemon-unresponsive` and
 * `control-not-permitted`.
 */
export async function isReachable(socketPath: string, timeoutMs: number, signal: AbortSignal): Promise<boolean> {
  if (await isMissing(socketPath)) return false;
  try {
    await exchange(socketPath, { method: 'GET', path: '', timeoutMs }, async () => {}, signal);
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    if (isUnresponsive(error) || isNotPermitted(error)) throw error;
    const code = systemErrorCode(error.cause);
    if (code === 'EAGAIN') throw unresponsive(); // the queue of connections that wait to be accepted is full
    return code !== 'ENOENT' && code !== 'ECONNREFUSED';
  }
  return true;
}

/** Without a daemon, a command that knows this loads neither `node:http` nor `node:net`: 6 % of its processor time. */
async function isMissing(path: string): Promise<boolean> {
  try {
    await access(path);
    return false;
  } catch (error) {
    if (systemErrorCode(error) === undefined) throw error;
    return systemErrorCode(error) === 'ENOENT';
  }
}

/** Yields the lines of a reply as they arrive. */
export async function* readLines(reply: IncomingMessage, maxLineBytes: number): AsyncGenerator<string> {
  let rest = '';
  reply.setEncoding('utf8');
  for await (const chunk of reply as AsyncIterable<string>) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
    if (rest.length > maxLineBytes) throw replyInvalid('a line of its reply is too long');
  }
}

export function replyInvalid(why: string): ControlError {
  return new ControlError('daemon-reply-invalid', `the reply of the daemon is invalid: ${why}`);
}

/** Returns the error of a connection that ended before the reply. */
export function daemonLost(why: string, cause?: unknown): ControlError {
  return new ControlError('daemon-lost', `lost the connection to the daemon: ${why}`, { cause });
}

function notPermitted(socketPath: string): ControlError {
  return new ControlError('control-not-permitted', `not permitted to connect to the daemon at ${socketPath}`);
}

function unresponsive(): ControlError {
  return new ControlError('daemon-unresponsive', 'the daemon is not responding');
}

/** Translates the errors of node:net and node:http. Any other error passes through. */
export function translate(error: unknown, socketPath: string): unknown {
  const code = systemErrorCode(error);
  if (error instanceof AgentError || code === undefined) return error;
  if (code === 'EACCES' || code === 'EPERM') return notPermitted(socketPath);
  return code.startsWith('HPE_') ? replyInvalid('not HTTP') : daemonLost(describeError(error), error);
}
