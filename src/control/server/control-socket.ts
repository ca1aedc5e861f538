import { once } from 'node:events';
import type { Stats } from 'node:fs';
import { chmod, link, lstat, mkdir, rm } from 'node:fs/promises';
import { connect, type Server } from 'node:net';
import { basename, dirname, join } from 'node:path';

import { describeError, mapError, systemErrorCode, undefinedIfMissing } from '../../system/errors.ts';
import type { Caller } from '../access.ts';
import { ControlError } from '../control-errors.ts';

/** A directory in the run directory. Files in it inherit its group, thing-operators (tmpfiles.d, setgid). */
const OPERATORS = 'operators';

/** The size of `sun_path` (unix(7)) without the final zero. */
const maxPathBytes = 107;

/**
 * Makes the server listen on a Unix socket that never exists with a wider mode: the socket is created in a directory of
 * mode 0700 and linked to its path when it is ready, which never replaces a file. The socket for `root` is only for the owner, the one for `members` for the
 * group of the process, and the one for `operators` for the group of the directory `operators`, if it exists. An
 * existing socket is replaced only if no process serves it. The daemon's lock must prevent concurrent calls.
 */
export async function listenOnSocket(server: Server, path: string, caller: Caller): Promise<void> {
  const isStale = await refuseTaken(path);
  const group = await groupFor(dirname(path), caller);
  const nursery = join(group.directory, `.${basename(path)}.new`);
  const draft = join(nursery, 's');
  const longest = Math.max(Buffer.byteLength(draft), Buffer.byteLength(path));
  if (longest > maxPathBytes) throw unavailable(path, `the path is ${longest - maxPathBytes} bytes too long`);
  try {
    await rm(nursery, { recursive: true, force: true });
    await mkdir(nursery, { mode: 0o700 });
    const listening = once(server, 'listening');
    server.listen({ path: draft });
    await listening;
    await chmod(draft, group.mode);
    if (isStale) await rm(path, { force: true });
    await link(draft, path);
    await rm(nursery, { recursive: true, force: true });
  } catch (error) {
    server.close();
    throw unavailable(path, describeError(error), error);
  }
}

/** Returns the directory whose group a socket inherits, and its mode. */
async function groupFor(
  directory: string,
  caller: Caller,
): Promise<{ readonly directory: string; readonly mode: number }> {
  if (caller === 'members') return { directory, mode: 0o660 };
  const operators = join(directory, OPERATORS);
  const isShared = caller === 'operators' && (await factsOf(operators))?.isDirectory() === true;
  return isShared ? { directory: operators, mode: 0o660 } : { directory, mode: 0o600 };
}

async function factsOf(path: string): Promise<Stats | undefined> {
  return mapError(undefinedIfMissing(lstat(path)), (error) => unavailable(path, describeError(error), error));
}

/** True if a process serves the socket. Throws the system's error (EACCES, …) if that cannot be determined. */
export async function isSocketServed(path: string): Promise<boolean> {
  const socket = connect({ path });
  try {
    await once(socket, 'connect');
    return true;
  } catch (error) {
    const code = systemErrorCode(error);
    if (code === 'ENOENT' || code === 'ECONNREFUSED') return false;
    throw error;
  } finally {
    socket.destroy();
  }
}

/** Returns true if there is a socket that no process serves. Throws if there is anything else. */
async function refuseTaken(path: string): Promise<boolean> {
  const found = await factsOf(path);
  if (found === undefined) return false;
  if (!found.isSocket()) throw unavailable(path, 'there is a file that is not a socket');
  const isServed = await mapError(isSocketServed(path), (error) => unavailable(path, describeError(error), error));
  if (isServed) throw new ControlError('control-socket-in-use', `another daemon is using ${path}`);
  return true;
}

function unavailable(path: string, why: string, cause?: unknown): ControlError {
  return new ControlError('control-socket-unavailable', `cannot create the control socket ${path}: ${why}`, { cause });
}
