import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';

import { onSmallerMachine } from './machine/smaller-machine.ts';
import type { SmallerMachine } from './machine/smaller-machine.ts';

/** Cost of one run of a program, with the child processes that it waited for. */
export interface Cost {
  readonly seconds: number;
  readonly cpuSeconds: number;
  /** Peak of the largest of its processes. */
  readonly peakRssMib: number;
}

export interface Command {
  readonly argv: readonly [string, ...string[]];
  readonly env?: Readonly<Record<string, string>>;
  readonly on?: SmallerMachine | undefined;
}

let runs = 0;

/** Runs a program that must succeed, under GNU time(1), which knows its children. */
export async function measure({ argv, env = {}, on = {} }: Command, workFolder: string): Promise<Cost> {
  runs += 1;
  const report = join(workFolder, `time-${runs}`);
  const command = ['time', '--format=%U %S %M', `--output=${report}`, '--', ...argv] as const;
  await using smaller = await onSmallerMachine(command, on);
  const before = performance.now();
  const [program, ...args] = smaller.argv;
  const child = spawn(program, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env, ...smaller.env },
  });
  const said: Buffer[] = [];
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => said.push(chunk));
  const [code] = (await once(child, 'exit')) as [number | null];
  const seconds = (performance.now() - before) / 1000;
  if (code !== 0) throw new Error(`${argv.join(' ')}: exit ${code}\n${Buffer.concat(said).toString()}`);
  const [user = NaN, system = NaN, kibibytes = NaN] = (await readFile(report, 'utf8')).trim().split(' ').map(Number);
  await rm(report);
  return { seconds, cpuSeconds: user + system, peakRssMib: kibibytes / 1024 };
}

/** A line for bash; any failing part of a pipeline fails it. */
export function shell(script: string): Command {
  return { argv: ['bash', '-c', `set -euo pipefail; ${script}`] };
}
