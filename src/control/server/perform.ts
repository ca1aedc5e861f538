import type { OnEvent, OperationOutcome } from '../events.ts';
import { callOperation } from '../make-operations.ts';
import type { AgentOperations, Answered } from '../operations.ts';
import { operationRequest } from './operation-runner.ts';
import type { OperationRequest, OperationRunner } from './operation-runner.ts';

/** Who does what is asked. */
export interface Performer {
  readonly operations: AgentOperations;
  readonly runner: OperationRunner;
  /** Asked while something else runs, which may be ended for it: throws what it would be refused for all the same. */
  readonly refuse?: ((request: OperationRequest, signal: AbortSignal) => Promise<void>) | undefined;
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
  { operations, runner, refuse }: Performer,
  { name, input }: Asked,
  onEvent: OnEvent,
  gone: AbortSignal,
): Promise<OperationOutcome> {
  const request = operationRequest.parse({ operation: name, ...input });
  if (runner.running !== undefined) await refuse?.(request, gone);
  return runner.run(
    request,
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
