import type { Clock } from '../system/clock.ts';
import type { AgentError } from '../system/errors.ts';
import { SystemError } from '../system/system-errors.ts';
import type {
  Activity,
  InstallOptions,
  OnEvent,
  OperationEvent,
  OperationName,
  OperationOutcome,
} from './operations.ts';
import { ProgressPace } from './progress-pace.ts';

export interface OperationRequest {
  readonly operation: OperationName;
  /** The file of an `install` or a `flash`. */
  readonly path?: string | undefined;
  /** The microcontroller of a `flash` or a `restore`. */
  readonly board?: string | undefined;
  readonly options?: InstallOptions | undefined;
}

export type OperationWork = (onEvent: OnEvent, signal: AbortSignal) => Promise<OperationOutcome>;

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
  phase: OperationEvent | undefined;
  transfer: OperationEvent | undefined;
}

/**
 * One operation at a time, whoever asked: a person, the schedule, a program. Who asks for what is being done already
 * follows it; who asks for something else is told `agent-busy`. The work belongs to the daemon: it ends with the
 * daemon's signal, never because a follower went away.
 */
export class OperationRunner implements AsyncDisposable {
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  readonly #signal: AbortSignal;
  readonly #observer: OperationObserver;
  #running: RunningOperation | undefined;

  constructor(clock: Pick<Clock, 'monotonicMs'>, signal: AbortSignal, observer: OperationObserver = nobody) {
    this.#clock = clock;
    this.#signal = signal;
    this.#observer = observer;
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
    const running = this.#running;
    if (running === undefined) return follow(this.#start(request, work, onEvent), onEvent, signal);
    if (!includes(running.request, request)) throw agentBusy(running.request);
    onEvent({ kind: 'following', operation: running.request.operation });
    if (running.phase !== undefined) onEvent(running.phase);
    if (running.transfer !== undefined) onEvent(running.transfer);
    running.listeners.add(onEvent);
    return follow(running, onEvent, signal);
  }

  /** Resolves when nothing runs. */
  async idle(): Promise<void> {
    while (this.#running !== undefined) await Promise.allSettled([this.#running.end]);
  }

  /** Waits for the end of what runs; to be called after the daemon's signal was aborted. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.idle();
  }

  #start(request: OperationRequest, work: OperationWork, first: OnEvent): RunningOperation {
    const listeners = new Set([first]);
    const observer = this.#observer;
    const pace = new ProgressPace(this.#clock, (event) => {
      observer.onEvent(event);
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
        const outcome = await work(onProgress, this.#signal);
        pace.flush();
        observer.onEnd(outcome);
        return outcome;
      } catch (error) {
        pace.flush();
        observer.onFailure(error);
        throw error;
      } finally {
        this.#running = undefined;
      }
    };
    const running: RunningOperation = { request, listeners, end: toItsEnd(), phase: undefined, transfer: undefined };
    this.#running = running;
    return running;
  }
}

function bytesOf(event: OperationEvent | undefined): Pick<Activity, 'board' | 'doneBytes' | 'totalBytes'> {
  if (event?.kind === 'transfer') return { doneBytes: event.receivedBytes, totalBytes: event.totalBytes };
  if (event?.kind !== 'board') return {};
  return { board: event.board, doneBytes: event.doneBytes, totalBytes: event.totalBytes };
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

/** Whether who wants `wanted` gets it from what runs: the same thing, rebooting alike, at least as forced. */
function includes(running: OperationRequest, wanted: OperationRequest): boolean {
  return (
    running.operation === wanted.operation &&
    running.path === wanted.path &&
    running.board === wanted.board &&
    running.options?.reboot === wanted.options?.reboot &&
    (running.options?.force === true || wanted.options?.force !== true)
  );
}

/** Another operation runs. */
export function agentBusy(running: OperationRequest): AgentError {
  const why = `the agent is busy: ${operationTitles[running.operation]} is under way`;
  return new SystemError('agent-busy', why, { advice: 'wait for its end; agent status shows where it stands' });
}

const operationTitles: Readonly<Record<OperationName, string>> = {
  update: 'an update',
  install: 'the installation of a file',
  commit: 'a commit',
  rollback: 'a rollback',
  flash: 'the flashing of a microcontroller',
  restore: 'the restoring of a microcontroller',
};
