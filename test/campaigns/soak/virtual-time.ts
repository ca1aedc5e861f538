import process from 'node:process';
import { mock } from 'node:test';
import { setImmediate, setTimeout } from 'node:timers/promises';

import type { Clock } from '../../../src/system/time/clock.ts';

interface Sleeper {
  readonly dueMs: number;
  readonly wake: () => void;
}

/** Handles that exist in an idle process. Pipes: a client at the control socket may also wait. */
const idleResources = new Set(['Timeout', 'Immediate', 'TTYWrap', 'PipeWrap']);
/** Turns of the event loop for data in flight between two ends in this process. */
const QUIET_TURNS = 5;

/**
 * Time that passes only while everything sleeps, and then immediately. Everything sleeps when only idle handles keep
 * the event loop alive: no file, connection or program. `Date` shows this time, too, for packages that read it directly
 * (node-cron).
 */
export class VirtualTime implements Clock, Disposable {
  readonly #startMs: number;
  #nowMs: number;
  #sleepers: Sleeper[] = [];
  #isPassing = false;

  constructor(startMs: number) {
    this.#startMs = startMs;
    this.#nowMs = startMs;
    mock.timers.enable({ apis: ['Date'], now: startMs });
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
    const totalMs = Math.max(1, Math.ceil(ms)); // as a timer's
    const sleeper = { dueMs: this.#nowMs + totalMs, wake: resolve };
    const onAbort = (): void => reject(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    this.#sleepers.push(sleeper);
    if (!this.#isPassing) void this.#pass();
    try {
      await promise;
    } finally {
      signal.removeEventListener('abort', onAbort);
      this.#sleepers = this.#sleepers.filter((other) => other !== sleeper);
    }
  }

  [Symbol.dispose](): void {
    mock.timers.reset();
  }

  async #pass(): Promise<void> {
    this.#isPassing = true;
    for (;;) {
      await this.#quiet();
      const [first, ...others] = this.#sleepers;
      if (first === undefined) break;
      const next = others.reduce((earliest, other) => (other.dueMs < earliest.dueMs ? other : earliest), first);
      this.#nowMs = Math.max(this.#nowMs, next.dueMs);
      mock.timers.setTime(Math.floor(this.#nowMs));
      this.#sleepers = this.#sleepers.filter((other) => other !== next);
      next.wake();
    }
    this.#isPassing = false;
  }

  async #quiet(): Promise<void> {
    for (let turns = 0; turns < QUIET_TURNS;) {
      await setImmediate();
      turns = isIdle() ? turns + 1 : 0;
      if (turns === 0) await setTimeout(1);
    }
  }
}

function isIdle(): boolean {
  return process.getActiveResourcesInfo().every((name) => idleResources.has(name));
}
