import { callOperation } from './api/call-operation.ts';
import { requestTooLarge } from './control-errors.ts';
import type { OnEvent, OperationOutcome } from './events.ts';
import { checkInput, MAX_BODY_BYTES } from './find-operation.ts';
import type { LongOperation } from './long-operations.ts';
import { operationTable } from './operations.ts';
import type { AgentOperations, Answered } from './operations.ts';

export type OperationInput = Readonly<Record<string, unknown>>;

/** Creates the function for an entry of each kind. */
export interface OperationMakers {
  readonly answered: (
    name: string,
    entry: Answered,
  ) => (input: OperationInput, signal: AbortSignal) => Promise<unknown>;
  readonly followed: (
    name: string,
    entry: LongOperation,
  ) => (input: OperationInput, onEvent: OnEvent, signal: AbortSignal) => Promise<OperationOutcome>;
}

export function makeOperations({ answered, followed }: OperationMakers): AgentOperations {
  const made: Readonly<Record<string, unknown>> = Object.fromEntries(
    Object.entries<Answered | LongOperation>(operationTable).map(([name, entry]) => [
      name,
      'output' in entry ? answered(name, entry) : followed(name, entry),
    ]),
  );
  if (!areOperations(made)) throw new TypeError('an operation is missing');
  return made;
}

/** Returns the operations of an agent in this process with the input checks of the control socket. */
export function withCheckedInput(operations: AgentOperations): AgentOperations {
  return makeOperations({
    answered: (name, entry) => async (input, signal) =>
      callOperation(operations, name, checkBounded(entry, input), signal),
    followed: (name, entry) => async (input, onEvent, signal) =>
      callOperation(operations, name, checkBounded(entry, input), onEvent, signal),
  });
}

function checkBounded(entry: Answered | LongOperation, input: OperationInput): object {
  const checked = checkInput(entry, input);
  const { file: _, ...members } = input;
  if (Buffer.byteLength(JSON.stringify(bodyOf(entry, members))) > MAX_BODY_BYTES) throw requestTooLarge(MAX_BODY_BYTES);
  return checked;
}

/** Returns the members of an input that are not in the path. */
function bodyOf(entry: Answered | LongOperation, input: OperationInput): OperationInput {
  const inPath = new Set(entry.path.split('/'));
  return Object.fromEntries(Object.entries(input).filter(([member]) => !inPath.has(`:${member}`)));
}

/** True if every operation of the table exists. */
function areOperations(made: Readonly<Record<string, unknown>>): made is AgentOperations {
  return Object.keys(operationTable).every((name) => typeof made[name] === 'function');
}
