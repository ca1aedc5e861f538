import { closeSync, constants, fstatSync, ftruncateSync, openSync, readSync, statSync, writeSync } from 'node:fs';
import { mkdir, readdir, readlink, realpath } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { describeError, systemErrorCode } from '../errors.ts';
import { runProgram } from '../processes/child-process.ts';
import { SystemError } from '../system-errors.ts';
import { openOwn, OutsideFileError, readToBound } from './outside-file.ts';

/** Held until it is disposed or this process ends, however it ends. */
export type AgentLock = AsyncDisposable;

/** What the daemon holds the lock for. */
export const DAEMON = 'daemon';
const ONE_DAEMON = 'a daemon runs already, and one is enough: systemctl status thing-agent';
/** Whoever could ask it would have. */
const UNREACHED =
  'the daemon runs, and nobody reaches it: wait a minute; if that stays so: systemctl restart thing-agent';

/** Another agent holds the lock. */
export class AgentBusyError extends SystemError {
  readonly holder: LockHolder | undefined;

  constructor(path: string, holder: LockHolder | undefined, wanted: string) {
    const who = holder === undefined ? 'another agent' : `process ${holder.pid} (${holder.purpose})`;
    const beside = wanted === DAEMON ? ONE_DAEMON : UNREACHED;
    const advice = holder?.purpose === DAEMON ? beside : undefined;
    super('agent-busy', `${who} is at work and holds ${path}`, { advice });
    this.holder = holder;
  }
}

export interface LockHolder {
  readonly pid: number;
  readonly purpose: string;
}

const HOW_TO_OPEN =
  constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY;
const FLOCK_TIMEOUT_MS = 10_000;
const MAX_REPLACED = 10;
const MAX_HOLDER_BYTES = 4_096;

/**
 * One agent at a time, across processes. The lock is the kernel's (flock(2)): it belongs to the open file of this
 * process, so it ends with the process even after kill -9, and nothing that lies on the disk (an old file, a process
 * id that was used again) can fake or keep it. `purpose` tells others what the holder does.
 *
 * Throws AgentBusyError, or `lock-unavailable` where there can be no lock.
 */
export async function acquireLock(path: string, purpose: string, signal: AbortSignal): Promise<AgentLock> {
  for (let replaced = 0; replaced < MAX_REPLACED; replaced += 1) {
    const descriptor = await openLockFile(path);
    try {
      await lockDescriptor(path, descriptor, purpose, signal);
      if (isStillAt(path, descriptor)) {
        writeHolder(descriptor, { pid: process.pid, purpose });
        return heldLock(descriptor);
      }
    } catch (error) {
      closeSync(descriptor);
      throw error;
    }
    closeSync(descriptor);
  }
  throw unavailable(path, 'the file is being replaced all the time');
}

/**
 * Who holds the lock, without taking part: somebody who locks at this moment is not kept from it. Undefined: nobody. What
 * a killed holder left in the file counts only as long as its process lives and has the file open.
 */
export async function whoHolds(path: string): Promise<LockHolder | undefined> {
  try {
    const text = await readToBound(path, { maxBytes: MAX_HOLDER_BYTES, open: async (own) => openOwn(own, 'file') });
    const holder = parseHolder(text.toString('utf8'));
    return holder !== undefined && (await hasOpen(holder.pid, path)) ? holder : undefined;
  } catch (error) {
    if (systemErrorCode(error) === undefined && !(error instanceof OutsideFileError)) throw error;
    return undefined;
  }
}

/** Of a process of somebody else nobody may see that: then it counts. */
async function hasOpen(pid: number, path: string): Promise<boolean> {
  const folder = `/proc/${pid}/fd`;
  const file = await realpath(path);
  try {
    for (const name of await readdir(folder)) if ((await linkAt(join(folder, name))) === file) return true;
    return false;
  } catch (error) {
    return systemErrorCode(error) === 'EACCES';
  }
}

/** Files are closed while one looks. */
async function linkAt(path: string): Promise<string | undefined> {
  try {
    return await readlink(path);
  } catch (error) {
    if (systemErrorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

function heldLock(descriptor: number): AgentLock {
  let held = true;
  return {
    [Symbol.asyncDispose]: async () => {
      if (!held) return;
      held = false;
      ftruncateSync(descriptor);
      closeSync(descriptor);
    },
  };
}

async function openLockFile(path: string): Promise<number> {
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o750 });
    // A plain descriptor: nobody closes it behind our back, as the garbage collector does with a FileHandle.
    const descriptor = openSync(path, HOW_TO_OPEN, 0o600);
    if (fstatSync(descriptor).isFile()) return descriptor;
    closeSync(descriptor);
  } catch (error) {
    throw unavailable(path, describeError(error), error);
  }
  throw unavailable(path, 'it is not a regular file');
}

/**
 * Node has no flock(2), but the program of that name locks an open file that it inherits (flock(1), third form); the
 * lock stays with the open file when the program ends.
 */
async function lockDescriptor(path: string, descriptor: number, purpose: string, signal: AbortSignal): Promise<void> {
  const options = { timeoutMs: FLOCK_TIMEOUT_MS, descriptors: [descriptor] };
  const { exitCode, stderr } = await runProgram(['flock', '-x', '-n', '3'], options, signal);
  if (exitCode === 0) return;
  if (exitCode === 1) throw new AgentBusyError(path, readHolder(descriptor), purpose);
  throw unavailable(path, `flock: ${describeError(stderr.trim())}`);
}

/** False when the file was removed or replaced while we waited: then others may hold another file of that name. */
function isStillAt(path: string, descriptor: number): boolean {
  try {
    const ours = fstatSync(descriptor);
    const there = statSync(path);
    return ours.ino === there.ino && ours.dev === there.dev;
  } catch (error) {
    if (systemErrorCode(error) === 'ENOENT') return false;
    throw unavailable(path, describeError(error), error);
  }
}

function writeHolder(descriptor: number, { pid, purpose }: LockHolder): void {
  ftruncateSync(descriptor);
  writeSync(descriptor, `${pid} ${purpose.replaceAll(/\s+/g, ' ').slice(0, 100)}\n`, 0);
}

function readHolder(descriptor: number): LockHolder | undefined {
  const bytes = Buffer.alloc(MAX_HOLDER_BYTES);
  const length = readSync(descriptor, bytes, 0, bytes.byteLength, 0);
  return parseHolder(bytes.toString('utf8', 0, length));
}

function parseHolder(text: string): LockHolder | undefined {
  const [, pid, purpose] = /^([1-9]\d{0,9}) ([^\n]{1,200})\n$/.exec(text) ?? [];
  return pid === undefined || purpose === undefined ? undefined : { pid: Number(pid), purpose };
}

function unavailable(path: string, why: string, cause?: unknown): SystemError {
  return new SystemError('lock-unavailable', `cannot lock ${path}: ${why}`, { cause });
}
