import { spawn } from 'node:child_process';
import type { ChildProcessWithoutNullStreams } from 'node:child_process';

import type { AgentError } from '../../system/errors.ts';
import { describeError } from '../../system/errors.ts';
import { programEnvironment } from '../../system/processes/program-rights.ts';
import { BlockSource } from '../block-source.ts';
import type { FormatErrorCode } from '../errors.ts';
import { FirmwareFormatError, FirmwareError } from '../errors.ts';
import { pump } from '../pump.ts';

/** `xz -9` needs 65 MiB to decompress, the default level 9 MiB. */
const MEMORY_LIMIT_MIB = 80;
const EXIT_DEADLINE_MS = 10_000;
const STDERR_LIMIT_CHARACTERS = 4096;

const options = [
  '--decompress',
  '--stdout',
  '--format=xz',
  '--threads=1',
  `--memlimit-decompress=${MEMORY_LIMIT_MIB}MiB`,
];
/** In a fixed language, since its messages are parsed, and without the options that others may have set for xz. */
const environment = { LC_ALL: 'C', XZ_DEFAULTS: '', XZ_OPT: '' };

/** Implements decompress() of compression.ts with the program xz, since Node has no decoder for it. */
export async function* decompressWithXz(
  bytes: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
  program = 'xz',
): AsyncGenerator<Uint8Array, void, undefined> {
  signal.throwIfAborted();
  const source = new BlockSource(bytes);
  const child = spawn(program, options, { stdio: 'pipe', env: programEnvironment(process.env, environment) });
  const ending = endOf(child);
  const stop = (): void => void child.kill('SIGKILL');
  try {
    const machine = { name: program, input: child.stdin, output: child.stdout, stop };
    yield* pump(machine, source, (error) => error, signal);
    const timer = setTimeout(stop, EXIT_DEADLINE_MS);
    const problem = await ending;
    clearTimeout(timer);
    if (problem !== undefined) throw describeProblem(problem, source.offset);
  } finally {
    stop();
    // Destroys the pipes: unread output would keep its pipe open.
    for (const pipe of child.stdio) pipe?.destroy();
    source.close();
  }
}

type Problem =
  | { readonly kind: 'not-started'; readonly cause: Error }
  | { readonly kind: 'failed'; readonly why: string };

/** Returns the problem with which the program ended, or undefined if it succeeded. Never rejects. */
function endOf(child: ChildProcessWithoutNullStreams): Promise<Problem | undefined> {
  let said = '';
  child.stderr.setEncoding('latin1');
  child.stderr.on('data', (text: string) => {
    said = (said + text).slice(0, STDERR_LIMIT_CHARACTERS);
  });
  child.stdin.on('error', () => {}); // the program may end without reading its input
  return new Promise((resolve) => {
    child.on('error', (cause) => resolve({ kind: 'not-started', cause }));
    child.on('close', (code, signal) => {
      const [line = ''] = said.split('\n', 1);
      const why = line.replace(/^.*: \(stdin\): /, '') || `ended with ${signal ?? `exit code ${code}`}`;
      resolve(code === 0 ? undefined : { kind: 'failed', why });
    });
  });
}

function describeProblem(problem: Problem, offset: number): AgentError {
  if (problem.kind === 'not-started') {
    const why = `the firmware is compressed with xz, but the program xz cannot be started: ${describeError(problem.cause)}`;
    return new FirmwareError('xz-missing', why, { cause: problem.cause });
  }
  return new FirmwareFormatError(codeOf(problem.why), 'xz stream', offset, problem.why);
}

/** The code of a message of xz 5. Bytes behind the end have the same message as damage. */
function codeOf(why: string): FormatErrorCode {
  if (why === 'Unexpected end of input') return 'compression-truncated';
  return why === 'Memory usage limit reached' ? 'compression-memory' : 'compression-corrupt';
}
