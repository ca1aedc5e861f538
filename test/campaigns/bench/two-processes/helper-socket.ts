import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';

export interface HelperSocketOptions {
  readonly path: string;
  readonly agentUser: number;
  readonly command: readonly string[];
  readonly env: NodeJS.ProcessEnv;
}

/** Starts the helper when somebody asks for it, as systemd does. */
export class HelperSocket implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #listening: AsyncIterator<string>;

  private constructor(child: ChildProcess) {
    this.#child = child;
    this.#listening = createInterface({ input: child.stdout as Readable })[Symbol.asyncIterator]();
  }

  static async open({ path, agentUser, command, env }: HelperSocketOptions): Promise<HelperSocket> {
    const script = join(import.meta.dirname, 'listen-for-helper.pl');
    const stdio = ['ignore', 'pipe', 'ignore'] as const;
    const socket = new HelperSocket(
      spawn('perl', [script, path, String(agentUser), ...command], { stdio: [...stdio], env }),
    );
    await socket.helperEnded();
    return socket;
  }

  /** Resolves when the helper has ended since the last time. */
  async helperEnded(): Promise<void> {
    const { done = false } = await this.#listening.next();
    if (done) throw new Error('nobody listens for the agent');
  }

  /** Ends the helper, which must run. */
  async endHelper(): Promise<void> {
    this.#child.kill('SIGUSR1');
    await this.helperEnded();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.kill();
    await ended;
  }
}
