import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import process from 'node:process';
import { createInterface } from 'node:readline';
import type { Interface } from 'node:readline';

export interface HostedCommand {
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
}

export interface HostedResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** The agent's program in a process that stays, for one command after the other: most of a command's cost is its start. */
class Host {
  readonly #child: ChildProcess;
  readonly #replies: AsyncIterator<string>;
  #said = '';
  /** The command that is under way. */
  current: HostedCommand | undefined;

  constructor(program: string) {
    this.#child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', program], { stdio: 'pipe' });
    const { stdout, stderr } = this.#child;
    if (stdout === null || stderr === null) throw new TypeError('no pipes');
    const lines: Interface = createInterface({ input: stdout });
    this.#replies = lines[Symbol.asyncIterator]();
    stderr.setEncoding('utf8').on('data', (text: string) => (this.#said += text));
  }

  async run(command: HostedCommand): Promise<HostedResult> {
    this.current = command;
    this.#child.stdin?.write(`${JSON.stringify(command)}\n`);
    const reply = await this.#replies.next();
    if (reply.done === true) throw new Error(`agent ${command.args.join(' ')} ended its process: ${this.#said}`);
    this.current = undefined;
    return JSON.parse(reply.value) as HostedResult;
  }

  kill(): void {
    this.#child.kill('SIGKILL');
  }
}

let host: Host | undefined;

/** Undefined where a command needs a process of its own: in full (`npm run prove`), and beside another one. */
export async function runHosted(command: HostedCommand): Promise<HostedResult | undefined> {
  const program = process.env['THING_AGENT_HOST'];
  if (program === undefined) return undefined;
  host ??= new Host(program);
  return host.current === undefined ? host.run(command) : undefined;
}

/** What is under way with this file of a gateway is not waited for. */
export function endHosted(configFile: string): void {
  if (host?.current?.args.includes(configFile) !== true) return;
  host.kill();
  host = undefined;
}
