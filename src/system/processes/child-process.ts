import { type ChildProcess, spawn } from 'node:child_process';
import { statSync } from 'node:fs';
import type { Readable } from 'node:stream';

import { describeError, systemErrorCode } from '../errors.ts';
import { SystemError } from '../system-errors.ts';
import { asUser, programEnvironment, refuseRights } from './program-rights.ts';

export interface ProgramResult {
  /** The exit code. Omitted if a signal ended the program. */
  readonly exitCode: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
}

export interface ProgramTerms {
  readonly timeoutMs: number;
  /** The bound for stdout and for stderr; a program that prints more is killed. */
  readonly maxOutputBytes?: number;
  readonly input?: string;
  /** Variables in addition to the default ones (`programEnvironment`). */
  readonly env?: Readonly<Record<string, string>>;
  /** The user with whose rights the program runs. Omitted: this process's user. */
  readonly user?: string | undefined;
  /** Open files that the program inherits as descriptors 3, 4, … */
  readonly descriptors?: readonly number[];
}

/** A program could not be started, took too long, or printed too much. */
export class ProgramError extends SystemError {
  constructor(
    code: 'program-missing' | 'program-timeout' | 'program-output-too-large',
    command: string,
    why: string,
    cause?: unknown,
  ) {
    super(code, `${command}: ${why}`, { cause });
  }
}

export type RunProgram = typeof runProgram;

/** Describes why a program could not be started. */
export function describeStartError(error: unknown): string {
  return systemErrorCode(error) === 'ENOENT' ? 'no such program' : describeError(error);
}

/**
 * A process that the program left running may hold its output open. It is not waited for longer than this; later output
 * is lost.
 */
const LEFT_OPEN_MS = 3_000;
/** A killed program that does not end (it waits for a device) is abandoned after this time. */
const KILLED_MS = 10_000;

/**
 * Runs a program until it ends, without a shell. Returns its result, whatever its exit code. A process that it left
 * running with its output open gets a moment, and is then killed if it is in the program's process group, and abandoned
 * otherwise. Invariant 6: the program and its process group are killed with SIGKILL at the deadline, at the output
 * bound, or when the signal is aborted.
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
  const running = new Running(start(file, args, options), file, options.user);
  const timer = setTimeout(
    () => running.fail(new ProgramError('program-timeout', file, `no end within ${options.timeoutMs} ms`)),
    options.timeoutMs,
  );
  const onAbort = (): void => running.fail(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  const tooLoud = (): void =>
    running.fail(new ProgramError('program-output-too-large', file, `more than ${limit} bytes of output`));
  try {
    return await running.result(options.input, (stream) => collect(stream, limit, tooLoud));
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
  }
}

class Running {
  readonly #child: ChildProcess;
  readonly #user: string | undefined;
  readonly #ended = Promise.withResolvers<number | undefined>();
  #failure: unknown;
  #lastWait: NodeJS.Timeout | undefined;

  constructor(child: ChildProcess, file: string, user: string | undefined) {
    this.#child = child;
    this.#user = user;
    const { resolve, reject } = this.#ended;
    child.on('error', (error) => reject(new ProgramError('program-missing', file, describeStartError(error), error)));
    child.on('exit', () => {
      clearTimeout(this.#lastWait);
      // the event loop reads what is there before it comes to the second of these
      this.#lastWait = setTimeout(() => setImmediate(() => setImmediate(() => this.#letGo())), LEFT_OPEN_MS);
    });
    child.on('close', (code) => (this.#failure === undefined ? resolve(code ?? undefined) : reject(this.#failure)));
  }

  /** Kills it; `result` throws the first error. */
  fail(error: unknown): void {
    if (this.#failure !== undefined) return;
    this.#failure = error;
    this.#letGo();
    this.#lastWait ??= setTimeout(() => this.#ended.reject(error), KILLED_MS);
  }

  async result(input: string | undefined, reading: (stream: Readable) => () => string): Promise<ProgramResult> {
    const { stdin, stdout, stderr } = this.#child;
    try {
      // without a descriptor left there are no pipes, and the error comes
      if (!stdin || !stdout || !stderr) return await this.#neverStarted();
      const said = { stdout: reading(stdout), stderr: reading(stderr) };
      stdin.on('error', () => {}); // a program may end without reading its input
      stdin.end(input);
      const exitCode = await this.#ended.promise;
      return { exitCode, stdout: said.stdout(), stderr: said.stderr() };
    } finally {
      clearTimeout(this.#lastWait);
    }
  }

  async #neverStarted(): Promise<never> {
    await this.#ended.promise;
    throw new Error('a program ran without its pipes');
  }

  #letGo(): void {
    killGroup(this.#child.pid, this.#user);
    for (const stream of [this.#child.stdin, this.#child.stdout, this.#child.stderr]) stream?.destroy();
  }
}

function start(file: string, args: readonly string[], options: ProgramTerms): ChildProcess {
  return spawn(file, args, {
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe', ...(options.descriptors ?? [])],
    env: programEnvironment(process.env, options.env),
  });
}

/**
 * Kills a program, and its process group if it leads one. Ignores a program that has ended. The agent's unit may not
 * signal processes of other users (CAP_KILL), so a program is killed by its user: the configured user, or the user
 * to which the program changed, whom the unit hides (ProtectProc=).
 */
export function killGroup(pid: number | undefined, user?: string): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch (error) {
    const code = systemErrorCode(error);
    if (code === 'ESRCH') return;
    if (code !== 'EPERM') throw error;
    const owner = user ?? ownerOf(pid);
    if (owner === undefined) return; // its deadline ends the waiting
    const [file, ...args] = asUser(['sh', '-c', `kill -KILL -${pid}`], owner);
    spawn(file, args, { stdio: 'ignore' }).on('error', () => {}); // then its deadline ends the waiting, as for a program that cannot be killed
  }
}

/** Returns the number of the user of a process, or undefined if it has ended, or this process may not see it. */
function ownerOf(pid: number): string | undefined {
  const uid = statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid;
  return uid === undefined ? undefined : String(uid);
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
