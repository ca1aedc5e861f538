import * as z from 'zod';

import { abortable } from '../../system/abortable.ts';
import type { AgentError } from '../../system/errors.ts';
import { SystemError } from '../../system/system-errors.ts';
import type { Clock } from '../../system/time/clock.ts';
import { ControlError } from '../control-errors.ts';
import type { OnEvent, OperationEvent, OperationOutcome } from '../events.ts';
import { operationTable } from '../operations.ts';
import { ProgressPace } from '../progress-pace.ts';
import { followedName } from '../reports.ts';
import type { Activity, Of } from '../reports.ts';
import { precedence } from './precedence.ts';
import type { Precedence, Standing, Wanted } from './precedence.ts';

/** A followed operation with what tells it from another of its name. */
export const operationRequest = z.object({
  operation: followedName,
  /** The file of an `install` or a `flash`. */
  path: z.string().optional(),
  /** The microcontroller of a `flash` or a `restore`. */
  board: z.string().optional(),
  reboot: z.boolean().optional(),
  force: z.boolean().optional(),
});
export type OperationRequest = Of<typeof operationRequest>;

/** `interrupted`: what gave way to it. */
export type OperationWork = (
  onEvent: OnEvent,
  signal: AbortSignal,
  interrupted?: OperationRequest,
) => Promise<OperationOutcome>;

/** Is told of every operation, whoever asked for it. */
export interface OperationObserver {
  readonly onEvent: OnEvent;
  readonly onEnd: (outcome: OperationOutcome) => void;
  readonly onFailure: (error: unknown) => void;
}

const nobody: OperationObserver = { onEvent: () => {}, onEnd: () => {}, onFailure: () => {} };

interface RunningOperation {
  readonly request: OperationRequest;
  readonly listeners: Set<OnEvent>;
  readonly end: Promise<OperationOutcome>;
  readonly stop: AbortController;
  phase: OperationEvent | undefined;
  transfer: OperationEvent | undefined;
}

/** Why what ran was ended: somebody's word goes before it. No failure of its own, so that it passes through as it is. */
class GaveWay extends Error {
  override readonly name = 'GaveWay';
  readonly to: Wanted['operation'];

  constructor(to: Wanted['operation']) {
    super(`it gave way to ${to}`);
    this.to = to;
  }
}

/**
 * One operation at a time, whoever asked: a person, the schedule, a program. Who asks for what is being done already
 * follows it; what a person decides goes before what the agent was to find out (precedence.ts); who asks for anything else
 * is told `agent-busy`. The work belongs to the daemon: it ends with the daemon's signal, or for a person's word, never
 * because a follower went away.
 */
export class OperationRunner implements AsyncDisposable {
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  readonly #signal: AbortSignal;
  readonly #observers: Set<OperationObserver>;
  #running: RunningOperation | undefined;

  constructor(clock: Pick<Clock, 'monotonicMs'>, signal: AbortSignal, observer: OperationObserver = nobody) {
    this.#clock = clock;
    this.#signal = signal;
    this.#observers = new Set([observer]);
  }

  /** Is told from now on what runs, until it is disposed. */
  watch(observer: OperationObserver): Disposable {
    this.#observers.add(observer);
    return { [Symbol.dispose]: () => void this.#observers.delete(observer) };
  }

  get running(): OperationRequest | undefined {
    return this.#running?.request;
  }

  /** For `status`. */
  get activity(): Activity | undefined {
    if (this.#running === undefined) return undefined;
    const { request, phase, transfer } = this.#running;
    const named = { who: 'the daemon', operation: request.operation, board: request.board };
    return { ...named, ...(phase?.kind === 'phase' && { phase: phase.phase }), ...bytesOf(transfer) };
  }

  /** Somebody waits for what runs beside who began it. */
  get isFollowed(): boolean {
    return (this.#running?.listeners.size ?? 0) > 1;
  }

  /** The signal ends the waiting with its reason; the work goes on. */
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

  /** Returns when nothing runs. Throws `agent-busy` where what runs goes before. */
  async makeWay(wanted: Wanted, signal: AbortSignal): Promise<void> {
    while (this.#running !== undefined) await this.#end(this.#running, wanted, signal);
  }

  /** Ends what can be taken up again later; anything else goes on to its end. */
  async pause(signal: AbortSignal): Promise<void> {
    const [running, wanted] = [this.#running, { operation: 'hold' } as const];
    if (running !== undefined && ruleFor(running, wanted) === 'interrupt') await this.#end(running, wanted, signal);
  }

  /** For what is short, and waits for nobody. */
  refuseWhileBusy(): void {
    if (this.#running !== undefined) throw agentBusy(this.#running, this.#running.request);
  }

  /** Resolves when nothing runs. */
  async idle(): Promise<void> {
    while (this.#running !== undefined) await Promise.allSettled([this.#running.end]);
  }

  /** Waits for the end of what runs; to be called after the daemon's signal was aborted. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.idle();
  }

  /** Returns when it has ended for what goes before it; it may have come to its own end meanwhile. */
  async #end(running: RunningOperation, wanted: Wanted, signal: AbortSignal): Promise<OperationRequest> {
    if (ruleFor(running, wanted) !== 'interrupt') throw agentBusy(running, wanted);
    running.stop.abort(new GaveWay(wanted.operation));
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
    const pace = new ProgressPace(this.#clock, (event) => {
      for (const observer of observers) observer.onEvent(event);
      for (const listener of listeners) listener(event);
    });
    const onProgress: OnEvent = (event) => {
      if (event.kind === 'phase') running.phase = event;
      running.transfer = event.kind === 'transfer' || event.kind === 'board' ? event : undefined;
      pace.push(event);
    };
    const toItsEnd = async (): Promise<OperationOutcome> => {
      await Promise.resolve(); // `running` stands before the work can report
      try {
        const outcome = await work(onProgress, signal, interrupted);
        pace.flush();
        for (const observer of observers) observer.onEnd(outcome);
        return outcome;
      } catch (thrown) {
        pace.flush();
        const error = thrown instanceof GaveWay ? gaveWay(request, thrown) : thrown;
        for (const observer of observers) observer.onFailure(error);
        throw error;
      } finally {
        this.#running = undefined;
      }
    };
    const end = toItsEnd();
    const running: RunningOperation = { request, listeners, end, stop, phase: undefined, transfer: undefined };
    this.#running = running;
    return running;
  }
}

function bytesOf(event: OperationEvent | undefined): Pick<Activity, 'board' | 'doneBytes' | 'totalBytes'> {
  if (event?.kind === 'transfer') return { doneBytes: event.receivedBytes, totalBytes: event.totalBytes };
  if (event?.kind !== 'board') return {};
  return { board: event.board, doneBytes: event.doneBytes, totalBytes: event.totalBytes };
}

function ruleFor(running: RunningOperation, wanted: Wanted): Precedence {
  return precedence(running.request, standingOf(running), wanted);
}

/** From where it stands. */
async function join(running: RunningOperation, onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome> {
  onEvent({ kind: 'following', operation: running.request.operation });
  if (running.phase !== undefined) onEvent(running.phase);
  if (running.transfer !== undefined) onEvent(running.transfer);
  running.listeners.add(onEvent);
  return follow(running, onEvent, signal);
}

async function follow(running: RunningOperation, onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome> {
  const detached = Promise.withResolvers<never>();
  const detach = (): void => detached.reject(signal.reason);
  signal.addEventListener('abort', detach, { once: true });
  try {
    return await Promise.race([running.end, detached.promise]);
  } finally {
    signal.removeEventListener('abort', detach);
    running.listeners.delete(onEvent);
  }
}

function standingOf({ phase, transfer }: RunningOperation): Standing {
  return {
    phase: phase?.kind === 'phase' ? phase.phase : undefined,
    step: transfer?.kind === 'board' ? transfer.step : undefined,
  };
}

/** Another operation runs, and goes before. */
function agentBusy(running: RunningOperation, wanted: Wanted): AgentError {
  const title = titleOf(running.request.operation);
  if (wanted.operation === 'cancel') {
    const { phase, step } = standingOf(running);
    const at = step ?? phase;
    const message = `${title} cannot be cancelled now${at === undefined ? '' : ` (${at})`}`;
    const onTrial = phase === 'health' || phase === 'flashing';
    const advice = onTrial ? 'agent commit keeps a trial, agent rollback ends it' : 'wait for its end: agent status';
    return new ControlError('cannot-cancel', message, { advice });
  }
  return new SystemError('agent-busy', `the agent is busy: ${title} is under way`, {
    advice: 'wait for its end, or end it: agent cancel; agent status shows where it stands',
  });
}

function gaveWay({ operation }: OperationRequest, { to }: GaveWay): AgentError {
  return new ControlError('gave-way', `${titleOf(operation)} was ended: a person asked for ${titleOf(to)}`);
}

function titleOf(wanted: Wanted['operation']): string {
  if (wanted === 'hold') return 'a hold';
  return wanted === 'reboot' ? 'a reboot' : operationTable[wanted].title;
}
