import { spawn } from 'node:child_process';
import { lstat } from 'node:fs/promises';
import { dirname } from 'node:path';
import process from 'node:process';
import { addAbortSignal } from 'node:stream';
import type { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';

import type { Config } from '../config/config.ts';
import { describeError, systemErrorCode } from '../system/errors.ts';
import { findExposures } from '../system/files/guarded-file.ts';
import { NewFileError, writeNewFile } from '../system/files/new-file.ts';
import { programEnvironment } from '../system/processes/program-rights.ts';
import { findAgentUser, groupsOfPorts } from './agent/become-agent.ts';

const LENGTH_BYTES = 4;
const MAX_FILE_BYTES = 32 * 1024 * 1024;
/** More than gathering a report takes. */
const MAX_WAIT_MS = 15 * 60_000;
const ALL_MAY_WRITE = 0o002;

/** A process that writes one file with the rights that this one gives up. */
export interface RootWriter extends AsyncDisposable {
  /** Returns the size. Throws NewFileError, or an error with the system's code. */
  write(chunks: AsyncIterable<Uint8Array>): Promise<number>;
}

export interface NewFile {
  readonly path: string;
  readonly mayReplace: boolean;
}

/**
 * Starts what writes the file after this process has become the agent (`becomeAgent`). Undefined: it does not become
 * another, or the agent's user can put a link in the place of a folder on the way, so that root must not write there.
 * `config` is that of the agent; `command` starts this program as the writer (`takeFile`).
 */
export async function keepRootWriter(
  config: Config,
  { path, mayReplace }: NewFile,
  [program, ...args]: readonly [string, ...string[]],
): Promise<RootWriter | undefined> {
  if (process.geteuid?.() !== 0 || (await mayBeExchanged(dirname(path), config)) !== false) return undefined;
  const { NODE_COMPILE_CACHE } = process.env; // the launcher's: its start costs half
  // in a session of its own: Ctrl-C is its parent's, whose end it sees at its input
  const child = spawn(program, [...args, path, mayReplace ? 'replace' : 'new'], {
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'pipe', 'ignore'],
    env: programEnvironment(process.env, { NODE_COMPILE_CACHE }),
  });
  const answer = Promise.withResolvers<string>();
  let said = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (said += text));
  child.stdin.on('error', () => {}); // its answer says why it did not read on
  child.on('error', (error) => answer.resolve(`${systemErrorCode(error) ?? 'EIO'} ${describeError(error)}`));
  child.on('close', () => answer.resolve(said));
  return {
    write: async (chunks) => {
      const bytes = await buffer(chunks);
      const length = Buffer.alloc(LENGTH_BYTES);
      length.writeUInt32BE(bytes.byteLength);
      child.stdin.end(Buffer.concat([length, bytes]));
      refuseUnwritten(await answer.promise);
      return bytes.byteLength;
    },
    [Symbol.asyncDispose]: async () => {
      child.stdin.destroy();
      await answer.promise;
    },
  };
}

/** Whether the agent's user can exchange a folder on this way; undefined: there is no such user. */
async function mayBeExchanged(folder: string, config: Config): Promise<boolean | undefined> {
  const agent = config.system.helper === undefined ? undefined : await findAgentUser(config);
  if (agent === undefined) return undefined;
  const groups = new Set([agent.gid, ...(await groupsOfPorts(config))]);
  const exposures = await findExposures(folder);
  const places = await Promise.all(exposures.map(async ({ path }) => lstat(path)));
  return places.some(({ uid, gid, mode }) => uid === agent.uid || groups.has(gid) || (mode & ALL_MAY_WRITE) !== 0);
}

function refuseUnwritten(answer: string): void {
  if (answer === WRITTEN) return;
  const [code = '', ...words] = answer.split(' ');
  const why = words.join(' ');
  if (code === 'exists' || code === 'no-file') throw new NewFileError(code, why);
  throw Object.assign(new Error(answer === '' ? 'the process that was to write it ended' : why), { code });
}

const WRITTEN = 'written';

/**
 * The writer: takes the length of a file, and the file, and writes it if that came whole before the input ended, in
 * time. Until then nothing is on the disk. Returns its answer.
 */
export async function takeFile(
  [path = '', how]: readonly string[],
  input: Readable,
  maxWaitMs = MAX_WAIT_MS,
): Promise<string> {
  try {
    const bytes = await wholeFile(addAbortSignal(AbortSignal.timeout(maxWaitMs), input));
    await writeNewFile(path, oneChunk(bytes), how === 'replace');
    return WRITTEN;
  } catch (error) {
    const code = error instanceof NewFileError ? error.kind : (systemErrorCode(error) ?? 'EIO');
    return `${code} ${describeError(error)}`;
  }
}

async function wholeFile(input: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let leftBytes = LENGTH_BYTES + MAX_FILE_BYTES;
  for await (const chunk of input) {
    leftBytes -= chunk.byteLength;
    if (leftBytes < 0) throw new Error(`it is longer than ${MAX_FILE_BYTES} bytes`);
    chunks.push(chunk);
  }
  const all = Buffer.concat(chunks);
  const file = all.subarray(LENGTH_BYTES);
  if (all.byteLength < LENGTH_BYTES || all.readUInt32BE() !== file.byteLength) throw new Error('it did not come whole');
  return file;
}

async function* oneChunk(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}
