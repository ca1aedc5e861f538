import type { OnEvent, OperationEvent } from '../../control/events.ts';
import type { LongOperationName } from '../../control/long-operations.ts';
import { operationWords } from '../../control/presentation/operation-words.ts';
import { advanceProgress, beginProgress, type ProgressState } from '../../control/presentation/progress-state.ts';
import { ProgressThrottle } from '../../control/progress-throttle.ts';
import { undefinedIf } from '../../system/errors.ts';
import { printableJson } from '../../system/log/printable.ts';
import type { CliContext } from '../context.ts';
import { wrap } from './layout.ts';
import { pageFor } from './page.ts';
import { finishedLine, liveLine, phaseLine } from './progress-line.ts';

/** Shows an operation while it runs. */
export interface ProgressView extends AsyncDisposable {
  readonly show: OnEvent;
}

/**
 * The interval at which the live line is redrawn without an event, since its times change and the terminal may be
 * resized.
 */
const redrawMs = 500;

/**
 * Opens the view that fits: with `--json` a line of JSON on stdout for each event, on a terminal a live line, elsewhere
 * a line for each phase.
 */
export function openProgressView(context: CliContext, json: boolean): ProgressView {
  if (json) return throttled(context, (event) => context.out.write(`${printableJson(event)}\n`));
  if (context.err.isTTY && context.env['TERM'] !== 'dumb') return new LiveView(context);
  return new PlainView(context);
}

function throttled(context: CliContext, show: OnEvent): ProgressView {
  const pace = new ProgressThrottle(context.clock, show);
  return { show: (event) => pace.push(event), [Symbol.asyncDispose]: async () => pace.flush() };
}

class PlainView implements ProgressView {
  readonly #context: CliContext;
  #state: ProgressState | undefined;

  constructor(context: CliContext) {
    this.#context = context;
  }

  readonly show = (event: OperationEvent): void => {
    if (event.kind === 'following') printLine(this.#context, followingLine(event.operation));
    if (event.kind !== 'phase' || event.phase === 'done') return;
    const nowMs = this.#context.clock.monotonicMs();
    this.#state = advanceProgress(this.#state ?? beginProgress(nowMs), event, nowMs);
    printLine(this.#context, phaseLine(this.#state));
  };

  async [Symbol.asyncDispose](): Promise<void> {}
}

class LiveView implements ProgressView {
  readonly #context: CliContext;
  readonly #pace: ProgressThrottle;
  readonly #ending = new AbortController();
  readonly #redrawing: Promise<void>;
  #state: ProgressState | undefined;

  constructor(context: CliContext) {
    this.#context = context;
    this.#pace = new ProgressThrottle(context.clock, (event) => this.#take(event));
    this.#redrawing = undefinedIf((error) => error === ended, this.#redraw(this.#ending.signal));
  }

  readonly show = (event: OperationEvent): void => this.#pace.push(event);

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#context.signal.aborted) {
      this.#state = undefined; // the phase has not ended; the error message explains who continues it
      this.#context.err.pin(undefined);
    } else {
      this.#pace.flush();
      this.#finishPhase();
    }
    this.#ending.abort(ended);
    await this.#redrawing;
  }

  #take(event: OperationEvent): void {
    if (event.kind === 'following') {
      printLine(this.#context, followingLine(event.operation));
      return;
    }
    const nowMs = this.#context.clock.monotonicMs();
    if (event.kind === 'phase' && event.phase !== this.#state?.phase) this.#finishPhase();
    if (event.kind === 'phase' && event.phase === 'done') return; // the outcome is printed instead
    this.#state = advanceProgress(this.#state ?? beginProgress(nowMs), event, nowMs);
    this.#draw();
  }

  /** Leaves the live line in its last form as a line of its own. */
  #finishPhase(): void {
    const { clock, err } = this.#context;
    err.pin(undefined);
    if (this.#state !== undefined) printLine(this.#context, finishedLine(this.#state, clock.monotonicMs()));
    this.#state = undefined;
  }

  #draw(): void {
    const { clock, err } = this.#context;
    if (this.#state !== undefined) err.pin(liveLine(this.#state, clock.monotonicMs(), err.columns || 80));
  }

  async #redraw(signal: AbortSignal): Promise<void> {
    for (;;) {
      await this.#context.clock.sleep(redrawMs, signal);
      this.#draw();
    }
  }
}

const ended = new Error('the operation ended');

/**
 * Returns the line for an operation that is already running. A request for another file or board is refused, so the
 * running operation is for this one.
 */
function followingLine(operation: LongOperationName): string {
  const title = operationWords[operation].title.replace(' of a ', ' of this ');
  return `${title}${operation === 'update' ? ', or a check for one,' : ''} is already running; following it`;
}

function printLine(context: CliContext, text: string): void {
  const { columns } = pageFor(context.err, context);
  for (const line of wrap(text, columns)) context.err.write(`${line}\n`);
}
