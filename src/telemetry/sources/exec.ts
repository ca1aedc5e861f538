import { spawn } from 'node:child_process';
import { once } from 'node:events';

import { runProgram } from '../../system/child-process.ts';
import { describeError } from '../../system/errors.ts';
import { LineSplitter } from './line-splitter.ts';
import { parseReading } from './parse-reading.ts';
import { sourceFailed } from './source.ts';
import type { PolledSource, PushedSource, Reading } from './source.ts';

export type Command = readonly [string, ...string[]];

const MAX_OUTPUT_BYTES = 64 * 1024;
const MAX_LINE_BYTES = 16 * 1024;

/** A program that is started for each reading and prints it: a number, JSON, or a text. */
export function execSource(command: Command, timeoutMs: number): PolledSource {
  const [program] = command;
  return {
    kind: 'polled',
    read: async (signal) => {
      const options = { timeoutMs, maxOutputBytes: MAX_OUTPUT_BYTES };
      const { exitCode, stdout, stderr } = await runProgram(command, options, signal);
      if (exitCode !== 0)
        throw sourceFailed(program, `ended with ${exitCode ?? 'a signal'}: ${describeError(stderr.trim())}`);
      const reading = parseReading(stdout);
      if (reading === undefined) throw sourceFailed(program, 'printed nothing');
      return reading;
    },
  };
}

/** A program that keeps running and prints a reading per line. It is killed with its children when it is not wanted. */
export function execStreamSource(command: Command): PushedSource {
  const [program, ...args] = command;
  return {
    kind: 'pushed',
    run: async (onReading, signal) => {
      signal.throwIfAborted();
      const child = spawn(program, args, { detached: true, stdio: ['ignore', 'pipe', 'ignore'] });
      const kill = (): void => killGroup(child.pid);
      signal.addEventListener('abort', kill, { once: true });
      const lines = new LineSplitter(MAX_LINE_BYTES);
      child.stdout.on('data', (chunk: Buffer) => {
        for (const line of lines.push(chunk)) tell(parseReading(line), onReading);
      });
      try {
        await once(child, 'close');
      } catch (error) {
        throw sourceFailed(program, describeError(error), error);
      } finally {
        signal.removeEventListener('abort', kill);
        kill();
      }
      signal.throwIfAborted();
      throw sourceFailed(program, `ended with ${child.exitCode ?? child.signalCode}`);
    },
  };
}

function tell(reading: Reading, onReading: (reading: Reading) => void): void {
  if (reading !== undefined) onReading(reading);
}

function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}
