import { ControlError } from './control-errors.ts';
import type { FoundOperation } from './find-operation.ts';
import type { LongOperation } from './long-operations.ts';
import type { Answered } from './operations.ts';

/**
 * Who calls. The socket tells, since Node has no SO_PEERCRED (unix(7)): which process holds the other end could only be
 * read from the `/proc/PID/fd` of others, for which the agent would need CAP_SYS_PTRACE.
 */
export type Caller = 'root' | 'operators' | 'members';

/**
 * The sockets in the run directory, by caller. Each has connections of its own, so that no caller uses up those of
 * another.
 */
export const socketNames: Readonly<Record<Caller, string>> = {
  root: 'root.sock',
  operators: 'control.sock',
  members: 'status.sock',
};

/** The callers that may ask for this operation, whatever its input. */
export function callersOf(entry: Answered | LongOperation): readonly Caller[] {
  const isForMembers = 'output' in entry && entry.members !== undefined;
  return isForMembers ? ['members', 'operators', 'root'] : ['operators', 'root'];
}

/**
 * Promise `access`: the input as this caller may use it. Operators bring no older release. Throws
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
    throw new ControlError('control-not-permitted', 'an older release is installed for root alone', {
      advice: 'as root: agent install FILE --allow-downgrade',
    });
  }
  if (!callersOf(entry).includes(caller))
    throw new ControlError('control-not-permitted', `${name} is not for everyone in the group`);
  if (caller !== 'members' || ('output' in entry && entry.members === 'all')) return;
  if ('id' in input && listed.some((id) => id === input.id)) return;
  throw new ControlError('control-not-permitted', 'this property is not for everyone in the group', {
    advice: 'use sudo, or list it in the configuration: [control] properties',
  });
}
