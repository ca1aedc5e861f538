import type { Clock } from '../../../src/system/time/clock.ts';

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
