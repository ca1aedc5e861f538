import { userInfo } from 'node:os';
import { isAbsolute } from 'node:path';
import process from 'node:process';

import { refuseExposedProgram, scriptOf } from '../files/guarded-program.ts';
import { SystemError } from '../system-errors.ts';
import type { Environment } from './environment.ts';

/** A program and its arguments. */
type Command = readonly [string, ...string[]];

const passedOn = /^(?:PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_[A-Z]+|TZ|TMPDIR)$/;

/** The variables that a program inherits from the agent: none that could hold a secret, or steer a runtime. */
export function programEnvironment(environment: Environment, more: Environment = {}): NodeJS.ProcessEnv {
  const names = Object.keys(environment).filter((name) => passedOn.test(name));
  return { ...Object.fromEntries(names.map((name) => [name, environment[name]])), ...more };
}

/**
 * Runs a program as another user, with all groups and an environment of that user, irrevocably (setpriv(1) of
 * util-linux). The first argument is the user, the others are the program.
 */
const CHANGE_USER =
  'user=$1; shift; group=$(id -g "$user") || exit 125; ' +
  'exec setpriv --reuid="$user" --regid="$group" --init-groups --inh-caps=-all --no-new-privs --reset-env -- "$@"';

export function asUser(command: Command, user: string | undefined, us: ProcessIdentity = whoWeAre()): Command {
  return user === undefined || user === us.name ? command : ['sh', '-c', CHANGE_USER, 'sh', user, ...command];
}

/**
 * Throws `writable-by-others` for a program that would run with the agent's rights, and `user-unavailable` if the
 * agent cannot take the rights of the user.
 */
export async function refuseRights(
  command: Command,
  user: string | undefined,
  us: ProcessIdentity = whoWeAre(),
): Promise<void> {
  const [program] = command;
  const why = user === undefined ? undefined : whyCannotRunAs(user, us);
  if (why !== undefined) throw new SystemError('user-unavailable', `${program} cannot run as ${user}: ${why}`);
  if (user !== undefined && user !== us.name) return;
  for (const file of [program, scriptOf(command)])
    if (file !== undefined && isAbsolute(file)) await refuseExposedProgram(file);
}

/** The identity of this process. */
export interface ProcessIdentity {
  readonly isRoot: boolean;
  /** The name of the user, if it has one. */
  readonly name: string | undefined;
}

/** Returns why this process cannot run a program as that user, or undefined if it can. */
export function whyCannotRunAs(user: string, us: ProcessIdentity = whoWeAre()): string | undefined {
  if (us.isRoot || user === us.name) return undefined;
  return `the agent runs as ${us.name ?? 'a user without a name'}, and only root can take the rights of another user`;
}

function whoWeAre(): ProcessIdentity {
  const isRoot = process.getuid?.() === 0;
  try {
    return { isRoot, name: isRoot ? 'root' : userInfo().username };
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    return { isRoot, name: undefined };
  }
}
