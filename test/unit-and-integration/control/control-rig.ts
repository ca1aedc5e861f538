import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { socketNames } from '../../../src/control/access.ts';
import { controlClient } from '../../../src/control/client/control-client.ts';
import type { AgentOperations } from '../../../src/control/operations.ts';
import type { ControlLimits } from '../../../src/control/server/control-limits.ts';
import { startControlServer } from '../../../src/control/server/control-server.ts';
import { OperationRunner } from '../../../src/control/server/operation-runner.ts';
import type { Log, LogFields } from '../../../src/system/log/log.ts';
import { systemClock } from '../../../src/system/time/clock.ts';
import { fakeAgent } from '../cli/fake-operations.ts';

export const forever = new AbortController().signal;

/** A directory for sockets with a short path, removed afterwards. `socket` is root's. */
export async function runDirectory(): Promise<AsyncDisposable & { readonly path: string; readonly socket: string }> {
  const path = await mkdtemp(join(tmpdir(), 'ctl-'));
  return {
    path,
    socket: join(path, socketNames.root),
    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }),
  };
}

/** Stores log entries. */
export class KeptLog implements Log {
  readonly lines: string[] = [];
  readonly debug = (fields: LogFields, message: string): void => this.#keep(fields, message);
  readonly info = (fields: LogFields, message: string): void => this.#keep(fields, message);
  readonly warn = (fields: LogFields, message: string): void => this.#keep(fields, message);
  readonly error = (fields: LogFields, message: string): void => this.#keep(fields, message);

  #keep(fields: LogFields, message: string): void {
    this.lines.push(`${message} ${JSON.stringify(fields)}`);
  }
}

export interface ControlRig extends AsyncDisposable {
  readonly runDirectory: string;
  /** Root's socket. */
  readonly socket: string;
  readonly client: AgentOperations;
  readonly log: KeptLog;
  /** The daemon's life. */
  readonly daemon: AbortController;
  readonly runner: OperationRunner;
  /** As the daemon ends: its signal, then its parts. */
  stop(): Promise<void>;
}

/** A daemon's control socket, with nothing behind it but the given operations. */
export async function controlRig(
  operations: AgentOperations = fakeAgent(),
  limits: Partial<ControlLimits> = {},
): Promise<ControlRig> {
  const directory = await runDirectory();
  const daemon = new AbortController();
  const runner = new OperationRunner(systemClock, daemon.signal);
  const log = new KeptLog();
  const performer = { operations, runner, memberProperties: () => ['setpoint'] };
  const options = { runDirectory: directory.path, ...performer, log, limits: { closingMs: 200, ...limits } };
  const server = await startControlServer(options, daemon.signal);
  const stop = async (): Promise<void> => {
    daemon.abort(new Error('the test ends'));
    await runner[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
  };
  return {
    runDirectory: directory.path,
    socket: directory.socket,
    client: controlClient(directory.socket),
    log,
    daemon,
    runner,
    stop,
    [Symbol.asyncDispose]: async () => {
      await stop();
      await directory[Symbol.asyncDispose]();
    },
  };
}

/** A bare connection; `ended` has everything that came. */
export interface RawConnection {
  readonly socket: Socket;
  readonly ended: Promise<string>;
}

export function rawConnection(path: string, ...send: readonly string[]): RawConnection {
  const socket = connect({ path });
  let text = '';
  socket.setEncoding('utf8');
  socket.on('data', (chunk: string) => {
    text += chunk;
  });
  socket.on('error', () => {}); // the daemon may disconnect; `ended` shows the previous data
  const ended = new Promise<string>((resolve) => socket.on('close', () => resolve(text)));
  for (const part of send) socket.write(part);
  return { socket, ended };
}

/** The text of a request with a JSON body. */
export function requestText(method: string, path: string, body = ''): string {
  const length = body === '' ? '' : `content-length: ${Buffer.byteLength(body)}\r\n`;
  return `${method} ${path} HTTP/1.1\r\nhost: agent\r\n${length}\r\n${body}`;
}

/** Another program on the socket: it sends this and, on request, disconnects, or repeats the second part. */
export async function impostor(
  path: string,
  says: string,
  hangsUp: boolean,
  again?: { readonly says: string; readonly times: number; readonly everyMs: number },
): Promise<AsyncDisposable> {
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    open.add(socket);
    socket.on('error', () => {});
    socket.once('data', () => {
      socket.write(says);
      if (again !== undefined) goOn(socket, again);
      if (hangsUp) socket.end();
    });
  });
  await new Promise<void>((resolve) => server.listen({ path }, resolve));
  return {
    [Symbol.asyncDispose]: async () => {
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function goOn(
  socket: Socket,
  { says, times, everyMs }: { readonly says: string; readonly times: number; readonly everyMs: number },
): void {
  let said = 0;
  const timer = setInterval(() => {
    said += 1;
    if (said > times) socket.destroy();
    else socket.write(says);
  }, everyMs);
  socket.once('close', () => clearInterval(timer));
}
