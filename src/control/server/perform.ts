import type { OnEvent, OperationOutcome } from '../events.ts';
import type { AgentOperations, Answered } from '../operations.ts';
import { operationRequest } from './operation-runner.ts';
import type { OperationRequest, OperationRunner } from './operation-runner.ts';

/** Who does what is asked. */
export interface Performer {
  readonly operations: AgentOperations;
  readonly runner: OperationRunner;
}

/** An operation of the table with its input, which was checked against it. */
export interface Asked {
  readonly name: string;
  readonly input: object;
}

export async function answer(
  { operations, runner }: Performer,
  { name, entry, input }: Asked & { readonly entry: Answered },
  signal: AbortSignal,
): Promise<object> {
  if (entry.beside === 'nothing') runner.refuseWhileBusy();
  if (entry.beside === 'makes way') await runner.makeWay({ operation: 'reboot' }, signal);
  if (entry.beside === 'pauses') await runner.pause(signal);
  return call<object>(operations, name, input, signal);
}

/** Who goes away ends its own waiting, not the work. */
export async function follow(
  { operations, runner }: Performer,
  { name, input }: Asked,
  onEvent: OnEvent,
  gone: AbortSignal,
): Promise<OperationOutcome> {
  return runner.run(
    operationRequest.parse({ operation: name, ...input }),
    async (onProgress, signal, interrupted) =>
      withInterrupted(await call<OperationOutcome>(operations, name, input, onProgress, signal), interrupted),
    onEvent,
    gone,
  );
}

/** What gave way to a cancellation was cancelled, though nothing is left that could be. */
function withInterrupted(outcome: OperationOutcome, interrupted: OperationRequest | undefined): OperationOutcome {
  const isNothing = outcome.kind === 'nothing-to-cancel' && interrupted?.board !== undefined;
  return isNothing ? { kind: 'cancelled', version: interrupted.board } : outcome;
}

/** Of the table's types, which the compiler cannot follow through a name that comes from outside. */
async function call<Output>(operations: AgentOperations, name: string, ...input: readonly unknown[]): Promise<Output> {
  const all: Readonly<Record<string, unknown>> = operations;
  const operation = all[name];
  if (!isOperation<Output>(operation)) throw new TypeError(`there is no operation ${name}`);
  return operation.call(operations, ...input);
}

type Operation<Output> = (this: AgentOperations, ...input: readonly unknown[]) => Promise<Output>;

function isOperation<Output>(value: unknown): value is Operation<Output> {
  return typeof value === 'function';
}
