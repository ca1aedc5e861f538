import { access } from 'node:fs/promises';
import { connect } from 'node:net';

import { describeError, systemErrorCode } from '../system/errors.ts';
import { occurrence } from '../system/socket.ts';
import { Deadline } from '../system/time/deadline.ts';
import { PackageError } from './errors.ts';

/**
 * Asks the guard, in one line. Resolves when what was kept is kept, or when the guard watches. Throws
 * `guard-unavailable`.
 */
export type AskGuard = (question: string, timeoutMs: number, signal: AbortSignal) => Promise<void>;

/** Where systemd/thing-agent-package.socket listens. */
export const PACKAGE_GUARD = '/run/thing-agent-package.sock';

/** Throws `guard-unavailable` if nobody listens there. Starts no guard. */
export async function requireGuard(path: string): Promise<void> {
  try {
    await access(path);
  } catch (error) {
    if (systemErrorCode(error) === undefined) throw error;
    throw new PackageError('guard-unavailable', `nobody listens on ${path}: no package can be installed`);
  }
}

/** What the guard says at the end; without it, it was killed. */
const DONE = 'done\n';

/** The guard behind the socket of systemd/thing-agent-package.socket, which is for root alone. */
export function guardOn(path: string): AskGuard {
  return async (question, timeoutMs, signal) => {
    const late = (): Error => unavailable(`no answer within ${timeoutMs} ms`);
    using deadline = new Deadline(timeoutMs, late, signal);
    const socket = connect({ path });
    try {
      await occurrence(socket, 'connect', deadline.signal);
      let answer = '';
      socket.setEncoding('utf8').on('data', (text: string) => (answer = `${answer}${text}`.slice(0, DONE.length)));
      socket.write(`${question}\n`);
      await occurrence(socket, 'end', deadline.signal);
      if (answer !== DONE) throw unavailable('it hung up');
    } catch (error) {
      signal.throwIfAborted();
      throw error instanceof PackageError ? error : unavailable(describeError(error), error);
    } finally {
      socket.destroy();
    }
  };

  function unavailable(why: string, cause?: unknown): PackageError {
    return new PackageError('guard-unavailable', `the guard of packages, on ${path}: ${why}`, { cause });
  }
}
