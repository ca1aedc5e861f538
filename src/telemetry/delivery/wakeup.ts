import { abortable } from '../../system/abortable.ts';
import type { Clock } from '../../system/time/clock.ts';

/** Wakes a loop that works when there is something to do, and otherwise sleeps. */
export class Wakeup {
  #notified = new AbortController();

  notify(): void {
    this.#notified.abort();
  }

  /**
   * Returns after `ms`, or as soon as it is notified; immediately if it was notified since the last wait. An infinite
   * wait has no timer.
   */
  async wait(ms: number, clock: Pick<Clock, 'sleep'>, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const notified = this.#notified;
    try {
      if (!notified.signal.aborted) await sleep(ms, clock, AbortSignal.any([signal, notified.signal]));
    } catch (error) {
      signal.throwIfAborted();
      if (!notified.signal.aborted) throw error;
    }
    if (notified.signal.aborted && this.#notified === notified) this.#notified = new AbortController();
  }
}

async function sleep(ms: number, clock: Pick<Clock, 'sleep'>, signal: AbortSignal): Promise<void> {
  return ms === Number.POSITIVE_INFINITY ? abortable(new Promise<never>(() => {}), signal) : clock.sleep(ms, signal);
}
