import { chown, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { Server, Socket } from 'node:net';
import process from 'node:process';

import { describeError, systemErrorCode } from '../../system/errors.ts';
import type { Environment } from '../../system/processes/environment.ts';
import { agentSide } from '../agent-side.ts';
import { HelperError } from '../errors.ts';
import { encodeHead } from '../link/frame.ts';
import { trayBeside } from '../link/tray.ts';
import { Connection } from './connection.ts';
import type { ConnectionDeps } from './connection.ts';
import { Opening } from './opening.ts';
import type { Opened, OpeningDeps } from './opening.ts';

export interface HelperDeps extends OpeningDeps {
  readonly environment: Environment;
}

/** sd_listen_fds(3): the first descriptor that the service manager passes. */
const FIRST_LISTEN_FD = 3;
/** The helper stays so long after the last request, so that the next one need not start it. */
const IDLE_MS = 10_000;

/**
 * Runs the helper: it serves one connection at a time, on the socket that systemd passes, or on that of the
 * configuration. If systemd started it, it ends when it is idle, and what keeps it from its work is told to whoever
 * asks: systemd would start it again and again for a connection that nobody takes.
 */
export async function runHelper(deps: HelperDeps, signal: AbortSignal): Promise<void> {
  const { world, environment } = deps;
  await using opening = new Opening(deps, signal);
  const isActivated = environment['LISTEN_PID'] === String(process.pid) && environment['LISTEN_FDS'] === '1';
  const { server, served, idle } = serverOf({ opening, world, idleMs: IDLE_MS });
  if (isActivated) server.listen({ fd: FIRST_LISTEN_FD });
  else await listenForAgent(server, await opening.open());
  world.log.info({}, 'the helper is up');
  const stopped = Promise.withResolvers<void>();
  signal.addEventListener('abort', () => stopped.resolve(), { once: true });
  await Promise.race(isActivated ? [stopped.promise, idle] : [stopped.promise]);
  server.close();
  await served(signal.aborted);
}

interface Serving {
  readonly server: Server;
  /** Resolves when nobody has been connected for a while. */
  readonly idle: Promise<void>;
  /** Resolves when the connected agent is gone. */
  readonly served: (hangUp: boolean) => Promise<void>;
}

function serverOf(options: ConnectionDeps): Serving {
  let current: { readonly connection: Connection; readonly work: Promise<void> } | undefined;
  const rested = Promise.withResolvers<void>();
  let timer: NodeJS.Timeout | undefined;
  const rest = (): void => {
    timer = setTimeout(() => rested.resolve(), options.idleMs);
  };
  const server = createServer((socket) => {
    if (current !== undefined) {
      refuse(socket);
      return;
    }
    clearTimeout(timer);
    const connection = new Connection(socket, options);
    const work = connection.ended().finally(() => {
      current = undefined;
      rest();
    });
    current = { connection, work };
  });
  rest();
  return {
    server,
    idle: rested.promise,
    served: async (hangUp) => {
      clearTimeout(timer);
      if (hangUp) await current?.connection.leave();
      await current?.work;
      clearTimeout(timer);
    },
  };
}

/** Refuses a second connection: only one process is the agent, and another one of its user has to wait. */
function refuse(socket: Socket): void {
  socket.on('error', () => socket.destroy());
  socket.end(encodeHead({ kind: 'note', topic: 'leaving', content: { why: 'busy' } }));
  setTimeout(() => socket.destroy(), 1_000).unref();
}

/** Makes a socket for root and the owner of the agent's state alone: it is made closed, and then given to the owner. */
async function listenForAgent(server: Server, { config, path }: Opened): Promise<void> {
  try {
    const { uid, gid } = await stat(agentSide(config).paths.state);
    await rm(path, { force: true });
    await listenClosed(server, path);
    if (process.geteuid?.() === 0) await chown(path, uid, gid);
    await makeTray(trayBeside(path), uid);
  } catch (error) {
    if (systemErrorCode(error) === undefined) throw error;
    throw new HelperError('helper-unreachable', `cannot listen on ${path}: ${describeError(error)}`, {
      cause: error,
      advice:
        'start the agent first, whose unit makes its folder and has systemd listen here: systemctl start thing-agent',
    });
  }
}

async function listenClosed(server: Server, path: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const mask = process.umask(0o177);
  server.once('error', reject);
  server.listen({ path }, resolve);
  process.umask(mask);
  await promise;
}

/** As the socket's unit does: the agent's to write, and for nobody but root to read. */
async function makeTray(path: string, agentUid: number): Promise<void> {
  await rm(path, { force: true });
  await writeFile(path, '', { flag: 'wx', mode: 0o640 });
  if (process.geteuid?.() === 0) await chown(path, agentUid, 0);
}
