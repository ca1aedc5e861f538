import type { Clock } from '../../system/time/clock.ts';

/** A bell that wakes a loop. The loop works when there is something to do, and otherwise sleeps. */
export class Wakeup {
  #rung = new AbortController();

  notify(): void {
    this.#rung.abort();
  }

  /** Returns after `ms`, or as soon as the bell is rung; at once if it was rung since the last wait. */
  async wait(ms: number, clock: Pick<Clock, 'sleep'>, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const rung = this.#rung;
    try {
      if (!rung.signal.aborted) await clock.sleep(ms, AbortSignal.any([signal, rung.signal]));
    } catch (error) {
      signal.throwIfAborted();
      if (!rung.signal.aborted) throw error;
    }
    if (rung.signal.aborted && this.#rung === rung) this.#rung = new AbortController();
  }
}
