import { join } from 'node:path';

import { socketNames } from '../../control/access.ts';
import { isReachable } from '../../control/client/control-connection.ts';
import { abortable } from '../../system/abortable.ts';
import { AgentError, systemErrorCode } from '../../system/errors.ts';
import type { ServiceManager } from '../../system/processes/systemd-notify.ts';
import type { Clock } from '../../system/time/clock.ts';
import { everyTick } from '../../system/time/tick.ts';

/**
 * Shorter than the interval between two feeds with the unit of the package, so that the second feed knows the reply to
 * the first request.
 */
const MOST_SILENCE_MS = 50_000;
const LONGEST_PAUSE_MS = 20_000;

interface SelfTestDeps {
  readonly runDirectory: string;
  readonly clock: Clock;
  /** The pause after a request without a reply. */
  readonly againMs: number;
}

export interface WatchdogDeps {
  readonly manager: Pick<ServiceManager, 'watchdogMs' | 'watchdog'>;
  readonly clock: Clock;
  readonly runDirectory: string;
  /** True while the running operation makes progress. */
  readonly isAlive: () => boolean;
  /** Called at each feed. */
  readonly onTurn: () => void;
}

/** Feeds the watchdog of the service manager as long as the daemon makes progress and responds. */
export function feedWatchdog({ manager, clock, runDirectory, isAlive, onTurn }: WatchdogDeps): AsyncDisposable {
  if (manager.watchdogMs === undefined) return { [Symbol.asyncDispose]: async () => {} };
  const everyMs = manager.watchdogMs / 3;
  const selfTest = new SelfTest({ runDirectory, clock, againMs: Math.min(everyMs, LONGEST_PAUSE_MS) });
  const feed = (): void => {
    if (isAlive() && selfTest.isResponding) manager.watchdog();
    selfTest.request(); // in the same wake-up, for the next feed
    onTurn();
  };
  feed();
  const tick = everyTick(everyMs, feed);
  return {
    [Symbol.asyncDispose]: async () => {
      tick[Symbol.dispose]();
      await selfTest[Symbol.asyncDispose]();
    },
  };
}

/**
 * Tests whether the daemon responds. It calls itself through root's control socket, as clients do, and accesses a file,
 * which needs a thread that hanging file systems could occupy. A rejection counts as a reply; a missing socket and
 * silence do not.
 */
class SelfTest implements AsyncDisposable {
  readonly #deps: SelfTestDeps;
  readonly #socketPath: string;
  readonly #stop = new AbortController();
  /** The pending request, which ends with a reply. */
  #pending: Promise<void> | undefined;
  /** The start of the current time without a reply. */
  #silentSinceMs: number | undefined;

  constructor(deps: SelfTestDeps) {
    this.#deps = deps;
    this.#socketPath = join(deps.runDirectory, socketNames.root);
  }

  get isResponding(): boolean {
    return this.#silentSinceMs === undefined || this.#deps.clock.monotonicMs() - this.#silentSinceMs < MOST_SILENCE_MS;
  }

  /** Sends a request, unless one is pending. */
  request(): void {
    this.#pending ??= this.#untilReply().finally(() => (this.#pending = undefined));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new Error('the daemon ends'));
    await this.#pending;
  }

  async #untilReply(): Promise<void> {
    const { clock, againMs } = this.#deps;
    const { signal } = this.#stop;
    this.#silentSinceMs = clock.monotonicMs();
    try {
      while (!(await this.#hasReply(signal))) await clock.sleep(againMs, signal);
      this.#silentSinceMs = undefined;
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  async #hasReply(signal: AbortSignal): Promise<boolean> {
    try {
      return await abortable(isReachable(this.#socketPath, MOST_SILENCE_MS, signal), signal);
    } catch (error) {
      if (!(error instanceof AgentError) && systemErrorCode(error) === undefined) throw error;
      return false;
    }
  }
}
