import { isAbsolute } from 'node:path';

import { refuseExposedProgram } from '../files/guarded-program.ts';
import type { Environment } from './environment.ts';

/** A program, and its arguments. */
type Command = readonly [string, ...string[]];

const passedOn = /^(?:PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_[A-Z]+|TZ|TMPDIR)$/;

/** What a program gets of the agent's environment: nothing that could hold a secret, or steer a runtime. */
export function programEnvironment(environment: Environment, more: Environment = {}): NodeJS.ProcessEnv {
  const kept = Object.entries(environment).filter(([name]) => passedOn.test(name));
  return { ...Object.fromEntries(kept), ...more };
}

/**
 * With all groups of the user, an environment of the user's, and no way back: setpriv(1) of util-linux. The first argument is
 * the user, the others are the program.
 */
const CHANGE_USER =
  'user=$1; shift; group=$(id -g "$user") || exit 125; ' +
  'exec setpriv --reuid="$user" --regid="$group" --init-groups --inh-caps=-all --no-new-privs --reset-env -- "$@"';

export function asUser(command: Command, user: string | undefined): Command {
  return user === undefined ? command : ['sh', '-c', CHANGE_USER, 'sh', user, ...command];
}

/** Throws `writable-by-others`, of a program that has the agent's rights. */
export async function refuseExposed([program]: Command, user: string | undefined): Promise<void> {
  if (user === undefined && isAbsolute(program)) await refuseExposedProgram(program);
}
