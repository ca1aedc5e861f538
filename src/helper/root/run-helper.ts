import { chown, rm, stat } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { Server, Socket } from 'node:net';
import { join } from 'node:path';
import process from 'node:process';

import type { Config } from '../../config/config.ts';
import type { EngineWorld } from '../../daemon/wiring/engine.ts';
import { describeError, systemErrorCode } from '../../system/errors.ts';
import { acquireLock } from '../../system/files/lock.ts';
import type { Environment } from '../../system/processes/environment.ts';
import { agentSide } from '../agent-side.ts';
import { HelperError } from '../errors.ts';
import { encodeHead } from '../link/frame.ts';
import { serveConnection } from './connection.ts';
import { runDirectoryOf } from './engine.ts';

export interface HelperOptions {
  /** Throws ConfigError. */
  readonly loadConfig: () => Promise<Config>;
  readonly world: EngineWorld;
  readonly environment: Environment;
}

/** sd_listen_fds(3): the first descriptor that the service manager passes. */
const FIRST_LISTEN_FD = 3;
/** So long after the last word the helper stays, so that the next one finds it warm. */
const IDLE_MS = 10_000;

/**
 * The root side: one connection at a time, on the socket that systemd passes, or on that of the configuration. Where systemd
 * started it, it ends when nothing is asked any more.
 */
export async function runHelper({ loadConfig, world, environment }: HelperOptions, signal: AbortSignal): Promise<void> {
  const config = await loadConfig();
  if (config.system.helper === undefined) {
    throw new HelperError('helper-refused', 'the configuration names no helper', {
      advice: 'set [system] helper = "/run/thing-helper/helper.sock"',
    });
  }
  await using _lock = await acquireLock(join(runDirectoryOf(config), 'helper.lock'), 'helper', signal);
  const isActivated = environment['LISTEN_PID'] === String(process.pid) && environment['LISTEN_FDS'] === '1';
  const { server, served, idle } = serverOf({ loadConfig, world, idleMs: IDLE_MS });
  if (isActivated) server.listen({ fd: FIRST_LISTEN_FD });
  else await listenForAgent(server, config.system.helper, config);
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
  /** Resolves when who is connected is gone. */
  readonly served: (hangUp: boolean) => Promise<void>;
}

function serverOf(options: Parameters<typeof serveConnection>[1]): Serving {
  let current: { readonly socket: Socket; readonly work: Promise<void> } | undefined;
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
    const work = serveConnection(socket, options).finally(() => {
      current = undefined;
      rest();
    });
    current = { socket, work };
  });
  rest();
  return {
    server,
    idle: rested.promise,
    served: async (hangUp) => {
      clearTimeout(timer);
      if (hangUp) current?.socket.destroy();
      await current?.work;
      clearTimeout(timer);
    },
  };
}

/** One process is the agent; another one that its user runs has to wait. */
function refuse(socket: Socket): void {
  socket.on('error', () => socket.destroy());
  socket.end(encodeHead({ kind: 'note', topic: 'leaving', content: { why: 'busy' } }));
  setTimeout(() => socket.destroy(), 1_000).unref();
}

/** For the owner of the agent's state alone, and root: made closed, then given away. */
async function listenForAgent(server: Server, path: string, config: Config): Promise<void> {
  const { uid, gid } = await stat(agentSide(config).paths.state);
  await rm(path, { force: true });
  const mask = process.umask(0o177);
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', reject);
  server.listen({ path }, resolve);
  process.umask(mask);
  try {
    await promise;
    if (process.geteuid?.() === 0) await chown(path, uid, gid);
  } catch (error) {
    if (systemErrorCode(error) === undefined) throw error;
    throw new HelperError('helper-unreachable', `cannot listen on ${path}: ${describeError(error)}`, { cause: error });
  }
}
