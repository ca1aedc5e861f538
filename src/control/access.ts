import { ControlError } from './control-errors.ts';
import type { FoundOperation } from './find-operation.ts';
import type { LongOperation } from './long-operations.ts';
import type { Answered } from './operations.ts';

/**
 * The rights of a caller, which follow from the socket: Node has no SO_PEERCRED (unix(7)), and identifying the peer in
 * the `/proc/PID/fd` of other processes would need CAP_SYS_PTRACE.
 */
export type Caller = 'root' | 'operators' | 'members';

/**
 * The sockets in the run directory, by caller. Each has its own connection limit, so that no caller can exhaust
 * another's connections.
 */
export const socketNames: Readonly<Record<Caller, string>> = {
  root: 'root.sock',
  operators: 'control.sock',
  members: 'status.sock',
};

/** Returns the callers that may request this operation, with any input. */
export function callersOf(entry: Answered | LongOperation): readonly Caller[] {
  const isForMembers = 'output' in entry && entry.members !== undefined;
  return isForMembers ? ['members', 'operators', 'root'] : ['operators', 'root'];
}

/**
 * Guarantee `access`: returns the input that this caller may use. Only root may downgrade. Throws
 * `control-not-permitted`.
 */
export function permitted(caller: Caller, found: FoundOperation, input: object, listed: readonly string[]): object {
  requireAccess(caller, found, input, listed);
  return caller === 'root' || !('allowDowngrade' in found.entry.input.shape)
    ? input
    : { ...input, allowDowngrade: false };
}

function requireAccess(
  caller: Caller,
  { name, entry }: FoundOperation,
  input: object,
  listed: readonly string[],
): void {
  if ('allowDowngrade' in input && input.allowDowngrade === true && caller !== 'root') {
    throw new ControlError('control-not-permitted', 'only root may install an older release', {
      advice: 'as root: agent install FILE --allow-downgrade',
    });
  }
  if (!callersOf(entry).includes(caller))
    throw new ControlError('control-not-permitted', `${name} is not permitted for members of thing-agent`);
  if (caller !== 'members' || ('output' in entry && entry.members === 'all')) return;
  if ('id' in input && listed.some((id) => id === input.id)) return;
  throw new ControlError('control-not-permitted', 'members of thing-agent cannot access this property', {
    advice: 'use sudo, or list it in the configuration: [control] properties',
  });
}
