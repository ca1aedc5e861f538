import { setImmediate } from 'node:timers/promises';

import type { Clock } from '../../src/system/time/clock.ts';

/** Time that passes only by sleeping, without waiting. */
export class ManualClock implements Clock {
  readonly slept: number[] = [];
  #ms: number;

  constructor(nowMs = Date.UTC(2027, 0, 1)) {
    this.#ms = nowMs;
  }

  nowMs(): number {
    return this.#ms;
  }

  monotonicMs(): number {
    return this.#ms;
  }

  async sleep(ms: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    this.slept.push(ms);
    this.#ms += ms;
  }

  advance(ms: number): void {
    this.#ms += ms;
  }
}

interface Sleeper {
  readonly dueMs: number;
  readonly wake: () => void;
}

/** Time that passes only while everything sleeps on this clock, and then immediately. */
export class SteppedClock implements Clock {
  /** The number of sleeps that ended by time. */
  wakeups = 0;
  readonly #startMs: number;
  #nowMs: number;
  #sleepers: readonly Sleeper[] = [];
  #isPassing = false;

  constructor(startMs = 0) {
    this.#startMs = startMs;
    this.#nowMs = startMs;
  }

  nowMs(): number {
    return this.#nowMs;
  }

  monotonicMs(): number {
    return this.#nowMs - this.#startMs;
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

  /** Resolves when everything sleeps. */
  protected async quiet(): Promise<void> {
    await setImmediate();
  }

  /** Called with each new time. */
  protected onTime(_nowMs: number): void {}

  async #pass(): Promise<void> {
    this.#isPassing = true;
    for (;;) {
      await this.quiet();
      const [next] = this.#sleepers.toSorted((one, other) => one.dueMs - other.dueMs);
      if (next === undefined) break;
      this.#nowMs = Math.max(this.#nowMs, next.dueMs);
      this.onTime(this.#nowMs);
      this.#sleepers = this.#sleepers.filter((other) => other !== next);
      this.wakeups += 1;
      next.wake();
    }
    this.#isPassing = false;
  }
}
