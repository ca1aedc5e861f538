import { spawn } from 'node:child_process';
import { once } from 'node:events';
import process from 'node:process';
import type { Readable } from 'node:stream';

import { AgentError, describeError } from '../../system/errors.ts';
import { describeStartError, killGroup, runProgram } from '../../system/processes/child-process.ts';
import { asUser, programEnvironment, refuseRights } from '../../system/processes/program-rights.ts';
import { sampleOf } from '../reading-text.ts';
import { LineSplitter } from './line-splitter.ts';
import { parseReading } from './parse-reading.ts';
import type { SeriesUnits } from './parse-reading.ts';
import { sourceFailed } from './source.ts';
import type { ReadingSink, PolledSource, PushedSource } from './source.ts';

export interface Program {
  readonly command: readonly [string, ...string[]];
  /** The user whose rights it has. Omitted if it has the agent's. */
  readonly user?: string | undefined;
}

const MAX_OUTPUT_BYTES = 64 * 1024;
const MAX_LINE_BYTES = 16 * 1024;
/** A program that runs for this time has started, although it may have nothing to print. */
const STARTED_MS = 1_000;

/** A program that is started for each reading and prints it: a number, JSON, or a text. */
export function execSource({ command, user }: Program, timeoutMs: number): PolledSource {
  const [program] = command;
  const units: SeriesUnits = new Map();
  return {
    kind: 'polled',
    read: async (signal) => {
      const options = { timeoutMs, maxOutputBytes: MAX_OUTPUT_BYTES, user };
      const { exitCode, stdout, stderr } = await runProgram(command, options, signal);
      if (exitCode !== 0)
        throw sourceFailed(program, `ended with ${exitCode ?? 'a signal'}: ${describeError(stderr.trim())}`);
      const reading = parseReading(stdout, units);
      if (reading === undefined) throw sourceFailed(program, 'printed nothing');
      return reading;
    },
  };
}

/**
 * A program that keeps running and prints one reading per line. When it is no longer needed, it is killed with its
 * children.
 */
export function execStreamSource({ command, user }: Program): PushedSource {
  const [program] = command;
  const [file, ...args] = asUser(command, user);
  const units: SeriesUnits = new Map();
  return {
    kind: 'pushed',
    run: async (intake, signal) => {
      await refuseRights(command, user);
      signal.throwIfAborted();
      const child = spawn(file, args, {
        detached: true,
        stdio: ['ignore', 'pipe', 'ignore'],
        env: programEnvironment(process.env),
      });
      const closed = once(child, 'close');
      closed.catch(() => {}); // it is awaited when nothing more is printed
      const kill = (): void => {
        killGroup(child.pid, user);
        child.stdout.destroy(); // what it left behind may hold its end open
      };
      signal.addEventListener('abort', kill, { once: true });
      const started = setTimeout(() => intake.connected(), STARTED_MS);
      try {
        await readLines(child.stdout, intake, units);
        await closed;
      } catch (error) {
        signal.throwIfAborted();
        throw error instanceof AgentError ? error : sourceFailed(program, describeStartError(error), error);
      } finally {
        clearTimeout(started);
        signal.removeEventListener('abort', kill);
        kill();
      }
      signal.throwIfAborted();
      throw sourceFailed(program, `ended with ${child.exitCode ?? child.signalCode}`);
    },
  };
}

/** Reads lines until the program ends. A program that prints too fast is blocked in its write. */
async function readLines(output: Readable, intake: ReadingSink, units: SeriesUnits): Promise<void> {
  const lines = new LineSplitter(MAX_LINE_BYTES, (why) => intake.drop('too-long', why));
  for await (const chunk of output as AsyncIterable<Buffer>) {
    for (const line of lines.push(chunk)) intake.take(() => parseReading(line, units));
    await intake.rest(chunk.byteLength);
  }
  const rest = lines.finish();
  if (rest !== '') intake.drop('malformed', `its last line has no end: ${sampleOf(rest)}`);
}
