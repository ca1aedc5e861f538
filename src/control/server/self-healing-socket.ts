import { lstatSync } from 'node:fs';
import { lstat, rm } from 'node:fs/promises';
import type { Server } from 'node:net';

import {
  AgentError,
  undefinedIfThrows,
  describeError,
  systemErrorCode,
  undefinedIfMissing,
} from '../../system/errors.ts';
import type { Log } from '../../system/log/log.ts';
import { everyTick } from '../../system/time/tick.ts';
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
  #tick: Disposable | undefined;
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
    this.#tick ??= everyTick(checkMs, () => {
      if (!this.#isInPlace()) this.#check ??= this.#restore().finally(() => (this.#check = undefined));
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#tick?.[Symbol.dispose]();
    await this.#check;
    const { path, log } = this.#deps;
    try {
      if (this.#inode !== undefined && (await inodeAt(path)) === this.#inode) await rm(path, { force: true });
    } catch (error) {
      if (systemErrorCode(error) === undefined) throw error;
      log.warn({ path, error: describeError(error) }, 'cannot remove the control socket; the next agent replaces it');
    }
  }

  /** Synchronous, since a thread for each socket would wake the machine as often; the directory is in memory. */
  #isInPlace(): boolean {
    const { path } = this.#deps;
    const isRefused = (error: unknown): boolean => systemErrorCode(error) !== undefined;
    const found = undefinedIfThrows(isRefused, () => lstatSync(path, { bigint: true }).ino);
    return this.#server.listening && found !== undefined && found === this.#inode;
  }

  async #restore(): Promise<void> {
    const { path, log } = this.#deps;
    try {
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
