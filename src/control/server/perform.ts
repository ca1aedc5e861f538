import { callOperation } from '../api/call-operation.ts';
import type { OnEvent, OperationOutcome } from '../events.ts';
import type { AgentOperations, Answered } from '../operations.ts';
import { operationRequest } from './operation-runner.ts';
import type { OperationRequest, OperationRunner } from './operation-runner.ts';

export interface Performer {
  readonly operations: AgentOperations;
  readonly runner: OperationRunner;
  /**
   * Called before an operation starts or preempts another one. Throws if the operation would be refused anyway, so that
   * no operation is interrupted in vain.
   */
  readonly refuse?: ((request: OperationRequest, signal: AbortSignal) => Promise<void>) | undefined;
}

/** An operation of the table and its validated input. */
export interface IncomingRequest {
  readonly name: string;
  readonly input: object;
}

export async function answer(
  { operations, runner }: Performer,
  { name, entry, input }: IncomingRequest & { readonly entry: Answered },
  signal: AbortSignal,
): Promise<object> {
  if (entry.whileBusy === 'reject') runner.refuseWhileBusy();
  if (entry.whileBusy === 'preempt') await runner.preemptFor({ operation: 'reboot' }, signal);
  if (entry.whileBusy === 'pause') await runner.pause(signal);
  return callOperation<object>(operations, name, input, signal);
}

/** Runs or joins a long operation. A client that disconnects ends only its own wait, not the work. */
export async function follow(
  { operations, runner, refuse }: Performer,
  { name, input }: IncomingRequest,
  onEvent: OnEvent,
  gone: AbortSignal,
): Promise<OperationOutcome> {
  const request = operationRequest.parse({ operation: name, ...input });
  await refuse?.(request, gone);
  return runner.run(
    request,
    async (onProgress, signal, interrupted) =>
      withInterrupted(await callOperation<OperationOutcome>(operations, name, input, onProgress, signal), interrupted),
    onEvent,
    gone,
  );
}

/**
 * Returns `cancelled` for a cancellation that interrupted the reading of a board, although there was no update to
 * cancel.
 */
function withInterrupted(outcome: OperationOutcome, interrupted: OperationRequest | undefined): OperationOutcome {
  const isNothing = outcome.kind === 'nothing-to-cancel' && interrupted?.board !== undefined;
  return isNothing ? { kind: 'cancelled', version: interrupted.board } : outcome;
}
