import { lstat, rm } from 'node:fs/promises';
import type { Server } from 'node:net';

import { AgentError, describeError, systemErrorCode, undefinedIfMissing } from '../../system/errors.ts';
import type { Log } from '../../system/log/log.ts';
import type { Caller } from '../access.ts';
import { listenOnSocket } from './control-socket.ts';

export interface SelfHealingSocketDeps {
  readonly path: string;
  readonly caller: Caller;
  /** The interval at which the path of the socket is checked. */
  readonly checkMs: number;
  readonly log: Log;
}

/**
 * Keeps a server listening at its path. If the socket was moved, removed or replaced, it is created again, so that
 * clients can find the server; connections on the old socket continue. Disposing removes the socket if it is ours.
 */
export class SelfHealingSocket implements AsyncDisposable {
  readonly #server: Server;
  readonly #deps: SelfHealingSocketDeps;
  /** The inode of our socket. */
  #inode: bigint | undefined;
  #timer: NodeJS.Timeout | undefined;
  #check: Promise<void> | undefined;
  /** The last logged problem. */
  #problem: string | undefined;

  constructor(server: Server, deps: SelfHealingSocketDeps) {
    this.#server = server;
    this.#deps = deps;
  }

  async listen(): Promise<void> {
    const { path, caller, checkMs } = this.#deps;
    await listenOnSocket(this.#server, path, caller);
    this.#inode = await inodeAt(path);
    this.#timer ??= setInterval(() => {
      this.#check ??= this.#keep().finally(() => (this.#check = undefined));
    }, checkMs);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    await this.#check;
    const { path, log } = this.#deps;
    try {
      if (this.#inode !== undefined && (await inodeAt(path)) === this.#inode) await rm(path, { force: true });
    } catch (error) {
      if (systemErrorCode(error) === undefined) throw error;
      log.warn({ path, error: describeError(error) }, 'cannot remove the control socket; the next agent replaces it');
    }
  }

  async #keep(): Promise<void> {
    const { path, log } = this.#deps;
    try {
      if (this.#server.listening && (await inodeAt(path)) === this.#inode) return;
      this.#server.close();
      await this.listen();
      this.#problem = undefined;
      log.warn({ path }, 'the control socket was missing or replaced: created it again');
    } catch (error) {
      if (!(error instanceof AgentError) && systemErrorCode(error) === undefined) throw error;
      const problem = describeError(error);
      if (problem !== this.#problem) log.error({ path, error: problem }, 'clients cannot find the control socket');
      this.#problem = problem;
    }
  }
}

/**
 * Returns the inode at this path, or undefined if there is no file. While we listen on a socket, no other file gets its
 * inode.
 */
async function inodeAt(path: string): Promise<bigint | undefined> {
  return (await undefinedIfMissing(lstat(path, { bigint: true })))?.ino;
}
