import { stat } from 'node:fs/promises';
import { connect } from 'node:net';

import { describeError, valueOrUndefined } from '../system/errors.ts';
import { waitForEvent } from '../system/socket.ts';
import { Deadline } from '../system/time/deadline.ts';
import { PackageError } from './errors.ts';

/**
 * Sends the package installer a request, in one line. Resolves when the old package is saved, or when the installer
 * watches. Throws `package-installer-unavailable`.
 */
export type InstallerClient = (question: string, timeoutMs: number, signal: AbortSignal) => Promise<void>;

/** The socket of systemd/thing-agent-package.socket. */
export const PACKAGE_GUARD = '/run/thing-agent-package.sock';

/** Throws `package-installer-unavailable` without a listener there. Does not start the installer. */
export async function requireInstaller(path: string): Promise<void> {
  if ((await valueOrUndefined(stat(path))) !== undefined) return;
  throw new PackageError('package-installer-unavailable', `no listener on ${path}: packages cannot be installed`);
}

/** The installer's last output; without it, it was killed. */
const DONE = 'done\n';

/** The guard behind the socket of systemd/thing-agent-package.socket, which is for root alone. */
export function connectInstaller(path: string): InstallerClient {
  return async (question, timeoutMs, signal) => {
    const late = (): Error => unavailable(`no answer within ${timeoutMs} ms`);
    using deadline = new Deadline(timeoutMs, late, signal);
    const socket = connect({ path });
    try {
      await waitForEvent(socket, 'connect', deadline.signal);
      let answer = '';
      socket.setEncoding('utf8').on('data', (text: string) => (answer = `${answer}${text}`.slice(0, DONE.length)));
      socket.write(`${question}\n`);
      await waitForEvent(socket, 'end', deadline.signal);
      if (answer !== DONE) throw unavailable('it hung up');
    } catch (error) {
      signal.throwIfAborted();
      throw error instanceof PackageError ? error : unavailable(describeError(error), error);
    } finally {
      socket.destroy();
    }
  };

  function unavailable(why: string, cause?: unknown): PackageError {
    return new PackageError('package-installer-unavailable', `the guard of packages, on ${path}: ${why}`, { cause });
  }
}
