import * as z from 'zod';

import { abortable } from '../../system/abortable.ts';
import type { AgentError } from '../../system/errors.ts';
import { SystemError } from '../../system/system-errors.ts';
import type { Clock } from '../../system/time/clock.ts';
import { ControlError } from '../control-errors.ts';
import type { OnEvent, OperationEvent, OperationOutcome } from '../events.ts';
import { followedName } from '../long-operations.ts';
import { operationWords } from '../presentation/operation-words.ts';
import { advanceProgress, beginProgress, timeLeftMs } from '../presentation/progress-state.ts';
import type { ProgressState } from '../presentation/progress-state.ts';
import { ProgressThrottle } from '../progress-throttle.ts';
import type { Activity } from '../reports.ts';
import type { Infer } from '../schema-parts.ts';
import { optionsToJoin, precedence } from './preemption.ts';
import type { PreemptionDecision, OperationProgress, RequestedOperation } from './preemption.ts';

/** A long operation, with the inputs that distinguish it from others of the same name. */
export const operationRequest = z.object({
  operation: followedName,
  /** The file of an `install` or a `flash`. */
  path: z.string().optional(),
  /** The board of a `flash` or a `restore`. */
  board: z.string().optional(),
  reboot: z.boolean().optional(),
  force: z.boolean().optional(),
});
export type OperationRequest = Infer<typeof operationRequest>;

/** The work of an operation. `interrupted` is the operation that it preempted. */
export type OperationWork = (
  onEvent: OnEvent,
  signal: AbortSignal,
  interrupted?: OperationRequest,
) => Promise<OperationOutcome>;

/** Observes every operation. */
export interface OperationObserver {
  readonly onEvent: OnEvent;
  readonly onEnd: (outcome: OperationOutcome) => void;
  readonly onFailure: (error: unknown) => void;
}

interface RunningOperation {
  readonly request: OperationRequest;
  readonly listeners: Set<OnEvent>;
  readonly end: Promise<OperationOutcome>;
  readonly stop: AbortController;
  phase: OperationEvent | undefined;
  transfer: OperationEvent | undefined;
  progress: ProgressState;
}

/**
 * The reason with which a running operation is aborted in favor of another operation. It is not an AgentError, so that
 * it passes through unchanged.
 */
class PreemptedError extends Error {
  override readonly name = 'PreemptedError';
  readonly to: RequestedOperation['operation'];

  constructor(to: RequestedOperation['operation']) {
    super(`preempted by ${to}`);
    this.to = to;
  }
}

/**
 * Runs one operation at a time, requested by an operator, the schedule or a program. A request for the operation
 * already running joins it. An operator's decision interrupts work that only prepares a decision (preemption.ts). Any
 * other request gets `agent-busy`. The work belongs to the daemon: it ends with the daemon's signal or when it is
 * preempted, never because a follower disconnected.
 */
export class OperationRunner implements AsyncDisposable {
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  readonly #signal: AbortSignal;
  readonly #observers: Set<OperationObserver>;
  #running: RunningOperation | undefined;

  constructor(clock: Pick<Clock, 'monotonicMs'>, signal: AbortSignal, observer?: OperationObserver) {
    this.#clock = clock;
    this.#signal = signal;
    this.#observers = new Set(observer && [observer]);
  }

  /** Notifies the observer of every operation until the result is disposed. */
  watch(observer: OperationObserver): Disposable {
    this.#observers.add(observer);
    return { [Symbol.dispose]: () => void this.#observers.delete(observer) };
  }

  get running(): OperationRequest | undefined {
    return this.#running?.request;
  }

  /** The running operation, for `status`. */
  get activity(): Activity | undefined {
    if (this.#running === undefined) return undefined;
    const { request, phase, transfer, progress } = this.#running;
    const leftMs = timeLeftMs(progress, this.#clock.monotonicMs());
    const named = { process: 'the daemon', operation: request.operation, board: request.board };
    return { ...named, ...(phase?.kind === 'phase' && { phase: phase.phase }), ...bytesOf(transfer), leftMs };
  }

  /** True if other clients have joined the running operation. */
  get isFollowed(): boolean {
    return (this.#running?.listeners.size ?? 0) > 1;
  }

  /** Runs the work, or joins the same operation. The signal ends only the wait, not the work. */
  async run(
    request: OperationRequest,
    work: OperationWork,
    onEvent: OnEvent,
    signal: AbortSignal,
  ): Promise<OperationOutcome> {
    signal.throwIfAborted();
    this.#signal.throwIfAborted();
    let interrupted: OperationRequest | undefined;
    for (;;) {
      const running = this.#running;
      if (running === undefined) return follow(this.#start(request, work, onEvent, interrupted), onEvent, signal);
      if (ruleFor(running, request) === 'follow') return join(running, onEvent, signal);
      interrupted = await this.#end(running, request, signal);
    }
  }

  /** Interrupts the running operation and waits until it has ended. Throws `agent-busy` if it cannot be interrupted. */
  async preemptFor(wanted: RequestedOperation, signal: AbortSignal): Promise<void> {
    while (this.#running !== undefined) await this.#end(this.#running, wanted, signal);
  }

  /** Interrupts an operation that can be resumed later; any other operation continues. */
  async pause(signal: AbortSignal): Promise<void> {
    const [running, wanted] = [this.#running, { operation: 'hold' } as const];
    if (running !== undefined && ruleFor(running, wanted) === 'interrupt') await this.#end(running, wanted, signal);
  }

  /** Throws `agent-busy` if an operation runs, for requests that are short and do not wait. */
  refuseWhileBusy(): void {
    if (this.#running !== undefined) throw agentBusy(this.#running, this.#running.request);
  }

  /** Resolves when nothing runs. */
  async idle(): Promise<void> {
    while (this.#running !== undefined) await Promise.allSettled([this.#running.end]);
  }

  /** Waits for the end of the running operation. Abort the daemon's signal first. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.idle();
  }

  /** Interrupts an operation and waits until it has ended. */
  async #end(running: RunningOperation, wanted: RequestedOperation, signal: AbortSignal): Promise<OperationRequest> {
    if (ruleFor(running, wanted) !== 'interrupt') throw agentBusy(running, wanted);
    running.stop.abort(new PreemptedError(wanted.operation));
    await abortable(Promise.allSettled([running.end]), signal);
    this.#signal.throwIfAborted();
    return running.request;
  }

  #start(
    request: OperationRequest,
    work: OperationWork,
    first: OnEvent,
    interrupted: OperationRequest | undefined,
  ): RunningOperation {
    const stop = new AbortController();
    const signal = AbortSignal.any([this.#signal, stop.signal]);
    const listeners = new Set([first]);
    const observers = this.#observers;
    const pace = new ProgressThrottle(this.#clock, (event) => {
      running.progress = advanceProgress(running.progress, event, this.#clock.monotonicMs());
      for (const observer of observers) observer.onEvent(event);
      for (const listener of listeners) listener(event);
    });
    const onProgress: OnEvent = (event) => {
      if (event.kind === 'phase') running.phase = event;
      running.transfer = event.kind === 'transfer' || event.kind === 'board' ? event : undefined;
      pace.push(event);
    };
    const complete = async (): Promise<OperationOutcome> => {
      await Promise.resolve(); // the work may report only after `running` is set
      try {
        const outcome = await work(onProgress, signal, interrupted);
        pace.flush();
        for (const observer of observers) observer.onEnd(outcome);
        return outcome;
      } catch (thrown) {
        pace.flush();
        const error = thrown instanceof PreemptedError ? preemptedError(request, thrown) : thrown;
        for (const observer of observers) observer.onFailure(error);
        throw error;
      } finally {
        this.#running = undefined;
      }
    };
    const end = complete();
    const progress = beginProgress(this.#clock.monotonicMs());
    const running: RunningOperation = {
      request,
      listeners,
      end,
      stop,
      phase: undefined,
      transfer: undefined,
      progress,
    };
    this.#running = running;
    return running;
  }
}

function bytesOf(event: OperationEvent | undefined): Pick<Activity, 'board' | 'doneBytes' | 'totalBytes'> {
  if (event?.kind === 'transfer') return { doneBytes: event.receivedBytes, totalBytes: event.totalBytes };
  if (event?.kind !== 'board') return {};
  return { board: event.board, doneBytes: event.doneBytes, totalBytes: event.totalBytes };
}

function ruleFor(running: RunningOperation, wanted: RequestedOperation): PreemptionDecision {
  return precedence(running.request, progressOf(running), wanted);
}

/** Follows a running operation, starting with its current phase. */
async function join(running: RunningOperation, onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome> {
  onEvent({ kind: 'following', operation: running.request.operation });
  if (running.phase !== undefined) onEvent(running.phase);
  if (running.transfer !== undefined) onEvent(running.transfer);
  running.listeners.add(onEvent);
  return follow(running, onEvent, signal);
}

async function follow(running: RunningOperation, onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome> {
  return abortable(running.end, signal).finally(() => running.listeners.delete(onEvent));
}

function progressOf({ phase, transfer }: RunningOperation): OperationProgress {
  return {
    phase: phase?.kind === 'phase' ? phase.phase : undefined,
    step: transfer?.kind === 'board' ? transfer.step : undefined,
  };
}

/** Returns the error of a request while an operation runs that cannot be interrupted. */
function agentBusy(running: RunningOperation, wanted: RequestedOperation): AgentError {
  const title = titleOf(running.request.operation);
  const { phase, step } = progressOf(running);
  const trial =
    phase === 'health' || phase === 'flashing' ? 'end the trial: agent commit or agent rollback' : undefined;
  if (wanted.operation === 'cancel') {
    const at = step ?? phase;
    const message = `${title} cannot be cancelled now${at === undefined ? '' : ` (${at})`}`;
    const advice = trial ?? 'wait until it ends: agent status';
    return new ControlError('cannot-cancel', message, { advice });
  }
  const options = optionsToJoin(running.request, wanted);
  const [differs, follow] =
    options === undefined ? ['', ''] : [', with other options', `to follow it, run the same command ${options}; or `];
  return new SystemError('agent-busy', `the agent is busy: ${title} is running${differs}`, {
    advice: `${follow}wait until it ends, or ${trial ?? 'cancel it: agent cancel'}; to see its progress: agent status`,
  });
}

function preemptedError({ operation }: OperationRequest, { to }: PreemptedError): AgentError {
  return new ControlError('preempted', `${titleOf(operation)} was interrupted: an operator requested ${titleOf(to)}`);
}

function titleOf(wanted: RequestedOperation['operation']): string {
  if (wanted === 'hold') return 'a hold';
  return wanted === 'reboot' ? 'a reboot' : operationWords[wanted].title;
}
