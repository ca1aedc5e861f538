import { lstat, rm } from 'node:fs/promises';
import type { Server } from 'node:net';

import { AgentError, describeError, systemErrorCode, undefinedIfMissing } from '../../system/errors.ts';
import type { Log } from '../../system/log/log.ts';
import type { Caller } from '../access.ts';
import { listenOnSocket } from './control-socket.ts';

export interface LastingSocketDeps {
  readonly path: string;
  readonly caller: Caller;
  /** How often the socket is looked for at its path. */
  readonly lookMs: number;
  readonly log: Log;
}

/**
 * Keeps a server listening at its path. If somebody moved, removed or replaced the socket, no client could find the
 * server any more, so the socket is made anew; connections on the old one continue. Disposing removes the socket if it
 * is ours.
 */
export class SelfHealingSocket implements AsyncDisposable {
  readonly #server: Server;
  readonly #deps: LastingSocketDeps;
  /** The inode of our socket. */
  #inode: bigint | undefined;
  #timer: NodeJS.Timeout | undefined;
  #look: Promise<void> | undefined;
  /** The trouble that was logged last. */
  #trouble: string | undefined;

  constructor(server: Server, deps: LastingSocketDeps) {
    this.#server = server;
    this.#deps = deps;
  }

  async listen(): Promise<void> {
    const { path, caller, lookMs } = this.#deps;
    await listenOnSocket(this.#server, path, caller);
    this.#inode = await inodeAt(path);
    this.#timer ??= setInterval(() => {
      this.#look ??= this.#keep().finally(() => (this.#look = undefined));
    }, lookMs);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    await this.#look;
    const { path, log } = this.#deps;
    try {
      if (this.#inode !== undefined && (await inodeAt(path)) === this.#inode) await rm(path, { force: true });
    } catch (error) {
      if (systemErrorCode(error) === undefined) throw error;
      log.warn({ path, error: describeError(error) }, 'the control socket stays, and the next agent replaces it');
    }
  }

  async #keep(): Promise<void> {
    const { path, log } = this.#deps;
    try {
      if (this.#server.listening && (await inodeAt(path)) === this.#inode) return;
      this.#server.close();
      await this.listen();
      this.#trouble = undefined;
      log.warn({ path }, 'the control socket was gone, or another one: it was made anew');
    } catch (error) {
      if (!(error instanceof AgentError) && systemErrorCode(error) === undefined) throw error;
      const trouble = describeError(error);
      if (trouble !== this.#trouble) log.error({ path, error: trouble }, 'nobody finds the control socket');
      this.#trouble = trouble;
    }
  }
}

/** The inode at this path; undefined: nothing is there. While we listen on a socket, no other file gets its inode. */
async function inodeAt(path: string): Promise<bigint | undefined> {
  return (await undefinedIfMissing(lstat(path, { bigint: true })))?.ino;
}
