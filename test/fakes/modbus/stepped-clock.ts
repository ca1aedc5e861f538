import { setImmediate } from 'node:timers/promises';

import type { Clock } from '../../../src/system/time/clock.ts';

interface Sleeper {
  readonly dueMs: number;
  readonly wake: () => void;
}

/** Time that passes only while everything sleeps on this clock, and then immediately. */
export class SteppedClock implements Clock {
  /** The number of sleeps that ended by time. */
  wakeups = 0;
  #nowMs = 0;
  #sleepers: readonly Sleeper[] = [];
  #isPassing = false;

  nowMs(): number {
    return this.#nowMs;
  }

  monotonicMs(): number {
    return this.#nowMs;
  }

  async sleep(ms: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const sleeper = { dueMs: this.#nowMs + ms, wake: resolve };
    const onAbort = (): void => reject(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    this.#sleepers = [...this.#sleepers, sleeper];
    if (!this.#isPassing) void this.#pass();
    try {
      await promise;
    } finally {
      signal.removeEventListener('abort', onAbort);
      this.#sleepers = this.#sleepers.filter((other) => other !== sleeper);
    }
  }

  async #pass(): Promise<void> {
    this.#isPassing = true;
    for (;;) {
      await setImmediate();
      const [next] = this.#sleepers.toSorted((one, other) => one.dueMs - other.dueMs);
      if (next === undefined) break;
      this.#nowMs = Math.max(this.#nowMs, next.dueMs);
      this.#sleepers = this.#sleepers.filter((other) => other !== next);
      this.wakeups += 1;
      next.wake();
    }
    this.#isPassing = false;
  }
}
