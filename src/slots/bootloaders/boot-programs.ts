import { isAbsolute } from 'node:path';

import { AgentError, systemErrorCode, valueOrError } from '../../system/errors.ts';
import { runProgram } from '../../system/processes/child-process.ts';
import type { ProgramResult, RunProgram } from '../../system/processes/child-process.ts';
import { uninterrupted } from './boot-environment.ts';
import { BootloaderError } from './errors.ts';
import type { BootloaderErrorCode } from './errors.ts';

export type { RunProgram };
export type ProgramCommand = Parameters<RunProgram>[0];

export interface ToolCall {
  readonly command: ProgramCommand;
  readonly input?: string;
  /** The error of a failure. */
  readonly code: BootloaderErrorCode;
  readonly advice: string;
  /** The advice if the program does not end in time. Default: `advice`. */
  readonly lateAdvice?: string;
}

const READ_TIMEOUT_MS = 10_000;
/** Erasing a block of raw flash takes seconds, and another program may hold the lock. */
const WRITE_TIMEOUT_MS = 60_000;
const MAX_OUTPUT_BYTES = 256 * 1024;

/** Runs the programs that read and write a boot environment. Every end except exit code 0 is a BootloaderError. */
export class BootPrograms {
  readonly #run: RunProgram;

  constructor(run: RunProgram = runProgram) {
    this.#run = run;
  }

  read(call: ToolCall, signal: AbortSignal): Promise<ProgramResult> {
    return this.#call(call, READ_TIMEOUT_MS, signal);
  }

  /** Runs a program that writes. An abort does not stop it, since that could tear what it writes; the deadline does. */
  async write(call: ToolCall, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    await this.#call(call, WRITE_TIMEOUT_MS, uninterrupted);
  }

  /** Returns the output of a program, whatever its exit code; empty if it cannot be run. */
  async probe(command: ProgramCommand, signal: AbortSignal): Promise<string> {
    const options = { timeoutMs: READ_TIMEOUT_MS, maxOutputBytes: MAX_OUTPUT_BYTES };
    const result = await valueOrError(this.#run(command, options, signal));
    return result instanceof AgentError ? '' : result.stdout;
  }

  async #call(
    { command, input, code, advice, lateAdvice = advice }: ToolCall,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<ProgramResult> {
    const options = { timeoutMs, maxOutputBytes: MAX_OUTPUT_BYTES, ...(input === undefined ? {} : { input }) };
    const result = await this.#run(command, options, signal).catch((error: unknown) => {
      if (!(error instanceof AgentError)) throw error;
      const [message, fix] = describeUnrun(error, command, error.code === 'program-timeout' ? lateAdvice : advice);
      throw new BootloaderError(code, message, { advice: fix, cause: error });
    });
    if (result.exitCode === 0) return result;
    const isKeptOut = READ_ONLY.test(result.stderr);
    throw new BootloaderError(code, `${command.join(' ')}: ${describeEnd(result)}`, {
      advice: isKeptOut ? HOW_TO_LET_WRITE : advice,
    });
  }
}

interface Unstarted {
  readonly why: string;
  /** Returns the fix for the operator. */
  readonly fix: (program: string) => string;
}

/** Describes why a program that was named with its path could not be run. */
function describeUnrun(error: AgentError, [program]: ProgramCommand, otherwise: string): readonly [string, string] {
  if (error.code === 'writable-by-others') return [error.message, error.advice ?? otherwise];
  const isStart = error.code === 'program-missing' && isAbsolute(program);
  const known = isStart ? unstarted[systemErrorCode(error.cause) ?? ''] : undefined;
  return known === undefined ? [error.message, otherwise] : [`${program} ${known.why}`, known.fix(program)];
}

/** By the error of the system. */
const unstarted: Readonly<Record<string, Unstarted>> = {
  ENOENT: {
    why: 'is missing, or the interpreter in its first line is',
    fix: (program) => `put it there: ls -l ${program}; head -n 1 ${program}`,
  },
  EACCES: {
    why: 'may not be executed',
    fix: (program) => `chmod 755 ${program}; where it may be already, its file system is mounted with noexec`,
  },
  ENOEXEC: { why: 'is not a program for this machine', fix: (program) => `a script begins with #!: file ${program}` },
};

/** The message of EROFS (strerror(3)), in the language that the handler's author used. */
const READ_ONLY = /read-only file system/i;
const HOW_TO_LET_WRITE =
  'is it mounted read-only, or outside of the directories that the unit lets programs write? systemctl edit thing-agent: [Service] ReadWritePaths=DIR';

function describeEnd({ exitCode, stderr }: ProgramResult): string {
  const end = exitCode === undefined ? 'ended by a signal' : `exit code ${exitCode}`;
  const said = stderr.trimEnd().split('\n').at(-1)?.trim() ?? '';
  return said === '' ? end : `${end}: ${said}`;
}
