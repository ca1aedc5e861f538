import type { OnEvent, OperationOutcome } from '../events.ts';
import { callOperation } from '../make-operations.ts';
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
  return callOperation<object>(operations, name, input, signal);
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
      withInterrupted(await callOperation<OperationOutcome>(operations, name, input, onProgress, signal), interrupted),
    onEvent,
    gone,
  );
}

/** What gave way to a cancellation was cancelled, though nothing is left that could be. */
function withInterrupted(outcome: OperationOutcome, interrupted: OperationRequest | undefined): OperationOutcome {
  const isNothing = outcome.kind === 'nothing-to-cancel' && interrupted?.board !== undefined;
  return isNothing ? { kind: 'cancelled', version: interrupted.board } : outcome;
}
