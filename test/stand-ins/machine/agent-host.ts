import process from 'node:process';
import { createInterface } from 'node:readline';
import { Readable, Writable } from 'node:stream';

import { program } from '../../../src/program.ts';
import type { HostedCommand, HostedResult } from './hosted-agent.ts';

/** Runs the agent's program for one line of standard input after the other, as if each had a process of its own. */

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

const { stdin, stdout } = process;

async function run({ args, env }: HostedCommand): Promise<HostedResult> {
  const [out, err] = [new Collected(), new Collected()];
  const streams = { stdin: Readable.from([]), stdout: out, stderr: err };
  for (const [name, value] of Object.entries(streams))
    Object.defineProperty(process, name, { value, configurable: true });
  process.env = env;
  return { exitCode: await program(args), stdout: out.text, stderr: err.text };
}

async function serve(): Promise<void> {
  for await (const line of createInterface({ input: stdin })) {
    stdout.write(`${JSON.stringify(await run(JSON.parse(line) as HostedCommand))}\n`);
  }
}

void serve(); // not awaited here, since what is built of this file is no ES module
