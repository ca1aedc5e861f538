import { access } from 'node:fs/promises';
import { join } from 'node:path';

import { socketNames } from '../../control/access.ts';
import { controlClient } from '../../control/client/control-client.ts';
import { ReportedFailure } from '../../control/control-errors.ts';
import type { AgentOperations } from '../../control/operations.ts';
import { abortable } from '../../system/abortable.ts';
import { AgentError, systemErrorCode } from '../../system/errors.ts';
import type { ServiceManager } from '../../system/processes/systemd-notify.ts';
import type { Clock } from '../../system/time/clock.ts';
import { everyTick } from '../../system/time/tick.ts';

/**
 * Shorter than the pause between two feeds with the unit that is shipped, so that the second one knows the answer to
 * the first question.
 */
const MOST_SILENCE_MS = 50_000;
const LONGEST_PAUSE_MS = 20_000;

interface OwnSocketDeps {
  readonly runDirectory: string;
  readonly clock: Clock;
  /** The pause after a question without an answer. */
  readonly againMs: number;
}

export interface WatchdogDeps {
  readonly manager: Pick<ServiceManager, 'watchdogMs' | 'watchdog'>;
  readonly clock: Clock;
  readonly runDirectory: string;
  /** True while the running operation makes progress. */
  readonly isAlive: () => boolean;
  /** Is called each time. */
  readonly onTurn: () => void;
}

/** Feeds the watchdog of the service manager as long as the daemon makes progress and answers. */
export function feedWatchdog({ manager, clock, runDirectory, isAlive, onTurn }: WatchdogDeps): AsyncDisposable {
  if (manager.watchdogMs === undefined) return { [Symbol.asyncDispose]: async () => {} };
  const everyMs = manager.watchdogMs / 3;
  const own = new OwnSocket({ runDirectory, clock, againMs: Math.min(everyMs, LONGEST_PAUSE_MS) });
  const feed = (): void => {
    if (isAlive() && own.answers) manager.watchdog();
    own.ask(); // asks in the same wake-up, for the next feed
    onTurn();
  };
  feed();
  const tick = everyTick(everyMs, feed);
  return {
    [Symbol.asyncDispose]: async () => {
      tick[Symbol.dispose]();
      await own[Symbol.asyncDispose]();
    },
  };
}

/**
 * Tests whether the daemon answers. It asks itself through the control socket of root, as others do, and looks at a
 * file, which needs a thread that hanging file systems could occupy. A refusal counts as an answer; a missing socket
 * and silence do not.
 */
class OwnSocket implements AsyncDisposable {
  readonly #deps: OwnSocketDeps;
  readonly #client: AgentOperations;
  readonly #stop = new AbortController();
  /** The present question, which ends with an answer. */
  #asking: Promise<void> | undefined;
  /** The beginning of the present time without answers. */
  #askedAtMs: number | undefined;

  constructor(deps: OwnSocketDeps) {
    this.#deps = deps;
    this.#client = controlClient(join(deps.runDirectory, socketNames.root), { answerMs: MOST_SILENCE_MS });
  }

  get answers(): boolean {
    return this.#askedAtMs === undefined || this.#deps.clock.monotonicMs() - this.#askedAtMs < MOST_SILENCE_MS;
  }

  /** Asks, unless a question has no answer yet. */
  ask(): void {
    this.#asking ??= this.#untilAnswered().finally(() => (this.#asking = undefined));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new Error('the daemon ends'));
    await this.#asking;
  }

  async #untilAnswered(): Promise<void> {
    const { clock, againMs } = this.#deps;
    const { signal } = this.#stop;
    this.#askedAtMs = clock.monotonicMs();
    try {
      while (!(await this.#isAnswered(signal))) await clock.sleep(againMs, signal);
      this.#askedAtMs = undefined;
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  async #isAnswered(signal: AbortSignal): Promise<boolean> {
    try {
      await abortable(access(this.#deps.runDirectory), signal);
      await this.#client.queue({}, signal);
      return true;
    } catch (error) {
      if (!(error instanceof AgentError) && systemErrorCode(error) === undefined) throw error;
      return error instanceof ReportedFailure;
    }
  }
}
