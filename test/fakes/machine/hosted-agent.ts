import { fork } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { Socket } from 'node:net';
import process from 'node:process';

export interface HostedCommand {
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
}

export interface HostedResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * The agent's program in a process that stays, for one command after another: most of a command's cost is its start. It
 * ends with the process that started it, and delays its end only while a command runs.
 */
class Host {
  readonly #child: ChildProcess;
  #said = '';
  /** The running command. */
  current: HostedCommand | undefined;

  constructor(program: string) {
    const execArgv = ['--disable-warning=ExperimentalWarning'];
    this.#child = fork(program, [], { execArgv, stdio: ['ignore', 'ignore', 'pipe', 'ipc'] });
    this.#child.unref();
    const { stderr } = this.#child;
    if (stderr instanceof Socket) stderr.unref();
    stderr?.setEncoding('utf8').on('data', (text: string) => (this.#said += text));
  }

  async run(command: HostedCommand): Promise<HostedResult> {
    this.current = command;
    this.#child.channel?.ref();
    const over = new AbortController();
    const { signal } = over;
    const ended = once(this.#child, 'close', { signal }).then((): never => {
      throw new Error(`agent ${command.args.join(' ')} ended its process: ${this.#said}`);
    });
    const reply = once(this.#child, 'message', { signal }) as Promise<[HostedResult]>;
    this.#child.send(command);
    const [result] = await Promise.race([reply, ended]);
    ended.catch(() => {}); // which is aborted now
    over.abort();
    this.#child.channel?.unref();
    this.current = undefined;
    return result;
  }

  kill(): void {
    this.#child.kill('SIGKILL');
  }
}

let host: Host | undefined;

/**
 * Returns undefined if a command needs a process of its own: in full (`npm run prove`), and while another command runs.
 */
export async function runHosted(command: HostedCommand): Promise<HostedResult | undefined> {
  const program = process.env['THING_AGENT_HOST'];
  if (program === undefined) return undefined;
  host ??= new Host(program);
  return host.current === undefined ? host.run(command) : undefined;
}

/** Does not wait for a running command with this configuration file. */
export function endHosted(configFile: string): void {
  if (host?.current?.args.includes(configFile) !== true) return;
  host.kill();
  host = undefined;
}
