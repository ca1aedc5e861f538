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
      if (reading === undefined) {
        const errors = stderr.trim();
        throw sourceFailed(
          program,
          `printed nothing${errors === '' ? '' : `, but an error: ${describeError(errors)}`}`,
        );
      }
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
        stdio: ['ignore', 'pipe', 'pipe'],
        env: programEnvironment(process.env),
      });
      const ended = once(child, 'exit');
      ended.catch(() => {}); // it is awaited when nothing more is printed
      const kill = (): void => {
        killGroup(child.pid, user);
        for (const output of [child.stdout, child.stderr]) output.destroy(); // what it left behind may hold its end open
      };
      signal.addEventListener('abort', kill, { once: true });
      const started = setTimeout(() => intake.connected(), STARTED_MS);
      try {
        noteErrors(child.stderr, intake).catch(() => {}); // it ends with the program
        await readLines(child.stdout, intake, units);
        await ended;
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

/** Notes the messages of a program on its standard error until it ends. */
async function noteErrors(output: Readable, intake: ReadingSink): Promise<void> {
  for await (const chunk of output as AsyncIterable<Buffer>) {
    const lines = chunk.toString('utf8').trim().split('\n');
    intake.drop('empty', `messages on its standard error, the last: ${sampleOf(lines.at(-1))}`, lines.length);
    await intake.rest(chunk.byteLength);
  }
}

/** Reads lines until the program ends. A program that prints too fast is blocked in its write. */
async function readLines(output: Readable, intake: ReadingSink, units: SeriesUnits): Promise<void> {
  const lines = new LineSplitter(MAX_LINE_BYTES, intake.drop);
  for await (const chunk of output as AsyncIterable<Buffer>) {
    for (const line of lines.push(chunk)) intake.take(() => parseReading(line, units));
    await intake.rest(chunk.byteLength);
  }
  const rest = lines.finish();
  if (rest !== '') intake.drop('malformed', `its last line has no end: ${sampleOf(rest)}`);
}
