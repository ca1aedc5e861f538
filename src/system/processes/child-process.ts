import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';

import { describeError } from '../errors.ts';
import { SystemError } from '../system-errors.ts';
import { asUser, programEnvironment, refuseRights } from './program-rights.ts';

export interface ProgramResult {
  /** The exit code; undefined: a signal ended the program. */
  readonly exitCode: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
}

export interface ProgramTerms {
  readonly timeoutMs: number;
  /** The bound for stdout and for stderr; a program that prints more is killed. */
  readonly maxOutputBytes?: number;
  readonly input?: string;
  /** Variables beside those that every program gets (`programEnvironment`). */
  readonly env?: Readonly<Record<string, string>>;
  /** The user with whose rights the program runs; undefined: those of this process. */
  readonly user?: string | undefined;
  /** Open files that the program inherits as descriptors 3, 4, … */
  readonly descriptors?: readonly number[];
}

/** A program could not be started, took too long, or printed too much. */
export class ProgramError extends SystemError {
  constructor(
    code: 'program-missing' | 'program-timeout' | 'program-too-loud',
    command: string,
    why: string,
    cause?: unknown,
  ) {
    super(code, `${command}: ${why}`, { cause });
  }
}

export type RunProgram = typeof runProgram;

/**
 * Runs a program to its end, without a shell. Returns its result, whatever its exit code. Invariant 6: the program and
 * its process group are killed with SIGKILL at the deadline, at the output bound, or when the signal is aborted.
 */
export async function runProgram(
  command: readonly [string, ...string[]],
  options: ProgramTerms,
  signal: AbortSignal,
): Promise<ProgramResult> {
  signal.throwIfAborted();
  await refuseRights(command, options.user);
  signal.throwIfAborted();
  const [file, ...args] = asUser(command, options.user);
  const limit = options.maxOutputBytes ?? 1024 * 1024;
  const child = start(file, args, options);
  let failure: unknown;
  const fail = (error: unknown): void => {
    failure ??= error;
    killGroup(child.pid);
  };
  const timer = setTimeout(
    () => fail(new ProgramError('program-timeout', file, `no end within ${options.timeoutMs} ms`)),
    options.timeoutMs,
  );
  const onAbort = (): void => fail(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  const tooLoud = (): void => fail(new ProgramError('program-too-loud', file, `more than ${limit} bytes of output`));
  const stdout = collect(child.stdout, limit, tooLoud);
  const stderr = collect(child.stderr, limit, tooLoud);
  child.stdin.on('error', () => {}); // a program may end without reading its input
  child.stdin.end(options.input);
  try {
    const exitCode = await new Promise<number | undefined>((resolve, reject) => {
      child.on('error', (error) => reject(new ProgramError('program-missing', file, describeError(error), error)));
      child.on('close', (code) => (failure === undefined ? resolve(code ?? undefined) : reject(failure)));
    });
    return { exitCode, stdout: stdout(), stderr: stderr() };
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
  }
}

interface StartedProgram extends ChildProcess {
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
}

function start(file: string, args: readonly string[], options: ProgramTerms): StartedProgram {
  const child = spawn(file, args, {
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe', ...(options.descriptors ?? [])],
    env: programEnvironment(process.env, options.env),
  });
  assert(hasPipes(child));
  return child;
}

function hasPipes(child: ChildProcess): child is StartedProgram {
  return child.stdin !== null && child.stdout !== null && child.stderr !== null;
}

/** Kills a program, and those that it started if it leads a process group. A program that has ended is no error. */
export function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}

function collect(stream: Readable, limit: number, onTooMuch: () => void): () => string {
  const chunks: Buffer[] = [];
  let size = 0;
  stream.on('data', (chunk: Buffer) => {
    size += chunk.byteLength;
    if (size > limit) onTooMuch();
    else chunks.push(chunk);
  });
  return () => Buffer.concat(chunks).toString('utf8');
}
