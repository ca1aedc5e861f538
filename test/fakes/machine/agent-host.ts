import process from 'node:process';
import { Readable, Writable } from 'node:stream';

import { program } from '../../../src/program.ts';
import type { HostedCommand, HostedResult } from './hosted-agent.ts';

/** Runs the agent's program for one message after the other, as if each had a process of its own. */

class Collected extends Writable {
  readonly #chunks: Buffer[] = [];

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.#chunks.push(chunk);
    done();
  }

  get text(): string {
    return Buffer.concat(this.#chunks).toString('utf8');
  }
}

async function run({ args, env }: HostedCommand): Promise<HostedResult> {
  const [out, err] = [new Collected(), new Collected()];
  const streams = { stdin: Readable.from([]), stdout: out, stderr: err };
  for (const [name, value] of Object.entries(streams))
    Object.defineProperty(process, name, { value, configurable: true });
  process.env = env;
  return { exitCode: await program(args), stdout: out.text, stderr: err.text };
}

/** A failure of the program ends this process and is reported by it. */
process.on('message', (command: HostedCommand) => void run(command).then((result) => process.send?.(result)));
