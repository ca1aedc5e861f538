import { access } from 'node:fs/promises';

import { connectToDaemon } from '../../control/client/control-client.ts';
import { abortable } from '../../system/abortable.ts';
import { AgentError } from '../../system/errors.ts';
import type { ServiceManager } from '../../system/processes/systemd-notify.ts';
import type { Clock } from '../../system/time/clock.ts';

const MOST_SILENCE_MS = 60_000;
const LONGEST_PAUSE_MS = 20_000;

interface OwnSocketOptions {
  readonly runDirectory: string;
  readonly clock: Clock;
  /** How often somebody wants to know. */
  readonly everyMs: number;
}

export interface WatchdogOptions {
  readonly manager: Pick<ServiceManager, 'watchdogMs' | 'watchdog'>;
  readonly clock: Clock;
  readonly runDirectory: string;
  /** What is under way gets on. */
  readonly isAlive: () => boolean;
}

/** Tells the service manager that the daemon is alive, as long as it gets on and answers. */
export function feedWatchdog({ manager, clock, runDirectory, isAlive }: WatchdogOptions): AsyncDisposable {
  if (manager.watchdogMs === undefined) return { [Symbol.asyncDispose]: async () => {} };
  const everyMs = manager.watchdogMs / 3;
  const own = new OwnSocket({ runDirectory, clock, everyMs });
  const feed = (): void => {
    if (isAlive() && own.answers) manager.watchdog();
  };
  feed();
  const timer = setInterval(feed, everyMs);
  return {
    [Symbol.asyncDispose]: async () => {
      clearInterval(timer);
      await own[Symbol.asyncDispose]();
    },
  };
}

/**
 * Whether the daemon answers who asks it: it asks itself, as others do, through its control socket, and looks at a file, which
 * needs one of the threads that files of others can hold. A connection that is refused because there are too many is an answer.
 */
class OwnSocket implements AsyncDisposable {
  readonly #options: OwnSocketOptions;
  readonly #stop = new AbortController();
  readonly #asking: Promise<void>;
  /** Of what is not answered yet. */
  #askedAtMs: number | undefined;

  constructor(options: OwnSocketOptions) {
    this.#options = options;
    this.#asking = this.#askAgain();
  }

  get answers(): boolean {
    return this.#askedAtMs === undefined || this.#options.clock.monotonicMs() - this.#askedAtMs < MOST_SILENCE_MS;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new Error('the daemon ends'));
    await this.#asking;
  }

  async #askAgain(): Promise<void> {
    const { clock, everyMs } = this.#options;
    const { signal } = this.#stop;
    try {
      while (!signal.aborted) {
        this.#askedAtMs = clock.monotonicMs();
        await this.#ask(signal);
        this.#askedAtMs = undefined;
        await clock.sleep(Math.min(everyMs, LONGEST_PAUSE_MS), signal);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  async #ask(signal: AbortSignal): Promise<void> {
    const { runDirectory } = this.#options;
    await abortable(access(runDirectory), signal);
    try {
      await (await connectToDaemon(runDirectory, { greetingMs: 2 * MOST_SILENCE_MS }, signal))?.spool({}, signal);
    } catch (error) {
      if (!(error instanceof AgentError)) throw error;
    }
  }
}
