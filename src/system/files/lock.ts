import {
  closeSync,
  constants,
  fchownSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readSync,
  statSync,
  writeSync,
} from 'node:fs';
import type { Stats } from 'node:fs';
import { readdir, readlink, realpath } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { describeError, systemErrorCode, undefinedIfMissing } from '../errors.ts';
import { runProgram } from '../processes/child-process.ts';
import { SystemError } from '../system-errors.ts';
import { makeFolder } from './make-folder.ts';
import { quoted } from './protected-file.ts';
import { openOwn, OutsideFileError, readToBound } from './untrusted-file.ts';

/** A lock that is held until it is disposed or this process ends, however it ends. */
export type AgentLock = AsyncDisposable;

/** The purpose of the daemon's lock. */
export const DAEMON = 'daemon';
const ONE_DAEMON = 'a daemon runs already, and one is enough: systemctl status thing-agent';
/** The advice where the daemon holds the lock but could not be reached: a command that reaches it does not lock. */
const UNREACHED =
  'the daemon runs but is not responding: wait a minute; if that does not help: systemctl restart thing-agent';

/** Another agent holds the lock. */
export class AgentBusyError extends SystemError {
  readonly holder: LockHolder | undefined;

  constructor(path: string, holder: LockHolder | undefined, wanted: string) {
    const who = holder === undefined ? 'another agent' : `process ${holder.pid} (${holder.purpose})`;
    const hint = wanted === DAEMON ? ONE_DAEMON : UNREACHED;
    const advice = holder?.purpose === DAEMON ? hint : undefined;
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
/** The system's errors for a folder and for a link. */
const PLANTED_CODES: ReadonlySet<string | undefined> = new Set(['EISDIR', 'ELOOP']);
const FLOCK_TIMEOUT_MS = 10_000;
const MAX_REPLACED = 10;
const MAX_HOLDER_BYTES = 4_096;

/**
 * Guarantee `one-agent`: takes the lock, which lets one agent work at a time, across processes. It is a lock of the
 * kernel (flock(2)) on an open file of this process: it ends with the process even after kill -9, and nothing on the
 * disk (an old file, a reused process id) can fake or keep it. `purpose` tells others what the holder does.
 *
 * Throws AgentBusyError, or `lock-unavailable` if no lock is possible.
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
 * Returns the holder of the lock, if any. Does not take the lock, so it never disturbs a process that does. The name
 * that a killed holder left in the file counts only while a process with its id has the file open.
 */
export async function findLockHolder(path: string): Promise<LockHolder | undefined> {
  try {
    const text = await readToBound(path, { maxBytes: MAX_HOLDER_BYTES, open: async (own) => openOwn(own, 'file') });
    const holder = parseHolder(text.toString('utf8'));
    return holder !== undefined && (await hasOpen(holder.pid, path)) ? holder : undefined;
  } catch (error) {
    if (systemErrorCode(error) === undefined && !(error instanceof OutsideFileError)) throw error;
    return undefined;
  }
}

/** True if the process has this file open. Also true for a process of another user, whose files cannot be listed. */
async function hasOpen(pid: number, path: string): Promise<boolean> {
  const folder = `/proc/${pid}/fd`;
  const file = await realpath(path);
  try {
    for (const name of await readdir(folder)) {
      // a file that was closed in the meantime no longer has a link
      if ((await undefinedIfMissing(readlink(join(folder, name)))) === file) return true;
    }
    return false;
  } catch (error) {
    return systemErrorCode(error) === 'EACCES';
  }
}

function heldLock(descriptor: number): AgentLock {
  const held = new AsyncDisposableStack();
  held.defer(() => {
    ftruncateSync(descriptor);
    closeSync(descriptor);
  });
  return held;
}

async function openLockFile(path: string): Promise<number> {
  try {
    await makeFolder(dirname(path), 0o750);
    // A plain descriptor, since the garbage collector would close a FileHandle.
    const descriptor = openSync(path, HOW_TO_OPEN, 0o600);
    const facts = fstatSync(descriptor);
    if (facts.isFile() && facts.nlink <= 1) {
      giveToOwner(descriptor, facts, dirname(path));
      return descriptor;
    }
    closeSync(descriptor);
    if (!facts.isFile()) throw foreignFileError(path, 'it is not a regular file');
    throw foreignFileError(path, "it has another name, which may be another user's file");
  } catch (error) {
    if (error instanceof SystemError) throw error;
    if (PLANTED_CODES.has(systemErrorCode(error))) throw foreignFileError(path, 'it is not a regular file', error);
    throw unavailable(path, describeError(error), { cause: error });
  }
}

/** In a folder of the agent's user root leaves no file that this user could not lock afterwards. */
function giveToOwner(descriptor: number, { uid }: Stats, folder: string): void {
  if (process.geteuid?.() !== 0) return;
  const owner = statSync(folder);
  if (owner.uid !== uid) fchownSync(descriptor, owner.uid, owner.gid);
}

/**
 * Locks an open file by the program flock(1) (third form), which inherits it, since Node has no flock(2). The lock
 * belongs to the open file and stays when the program ends.
 */
async function lockDescriptor(path: string, descriptor: number, purpose: string, signal: AbortSignal): Promise<void> {
  const options = { timeoutMs: FLOCK_TIMEOUT_MS, descriptors: [descriptor] };
  const { exitCode, stderr } = await runProgram(['flock', '-x', '-n', '3'], options, signal);
  if (exitCode === 0) return;
  if (exitCode === 1) throw new AgentBusyError(path, readHolder(descriptor), purpose);
  throw unavailable(path, `flock: ${describeError(stderr.trim())}`);
}

/** False if the file was removed or replaced while we waited: others may then lock another file of that name. */
function isStillAt(path: string, descriptor: number): boolean {
  try {
    const ours = fstatSync(descriptor);
    const there = statSync(path);
    return ours.ino === there.ino && ours.dev === there.dev;
  } catch (error) {
    if (systemErrorCode(error) === 'ENOENT') return false;
    throw unavailable(path, describeError(error), { cause: error });
  }
}

/** On a full disk the lock still works, but does not show its holder. */
function writeHolder(descriptor: number, { pid, purpose }: LockHolder): void {
  try {
    ftruncateSync(descriptor);
    writeSync(descriptor, `${pid} ${purpose.replaceAll(/\s+/g, ' ').slice(0, 100)}\n`, 0);
  } catch (error) {
    if (systemErrorCode(error) !== 'ENOSPC') throw error;
  }
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

/**
 * This program leaves nothing of this kind there. Only an operator removes it, since its purpose and owner are unknown.
 */
function foreignFileError(path: string, why: string, cause?: unknown): SystemError {
  const advice = `the agent did not create this; as root: systemctl stop thing-agent; rm -r ${quoted(path)}`;
  return unavailable(path, why, { cause, advice });
}

function unavailable(path: string, why: string, more: { cause?: unknown; advice?: string } = {}): SystemError {
  return new SystemError('lock-unavailable', `cannot lock ${path}: ${why}`, more);
}
