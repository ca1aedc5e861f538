import type { Clock } from '../../system/time/clock.ts';
import { backoffMs } from '../../system/time/retry.ts';
import type { RetryPolicy } from '../../system/time/retry.ts';

export interface GateDeps {
  readonly clock: Clock;
  /** 0 ≤ random() < 1 */
  readonly random: () => number;
}

const policy: RetryPolicy = {
  attempts: Number.POSITIVE_INFINITY,
  firstDelayMs: 1_000,
  maxDelayMs: 300_000,
  maxRetryAfterMs: 3_600_000,
};

/** Computes when requests may be made again. It has no clock. */
export class BreakerTimer {
  readonly #random: () => number;
  #failures = 0;
  #opensAtMs = Number.NEGATIVE_INFINITY;

  constructor(random: () => number) {
    this.#random = random;
  }

  /** The number of failures in a row. The caller returns it to `recordFailure`. */
  get failures(): number {
    return this.#failures;
  }

  /** Returns the time until requests may be made; 0 or less if they may be now. */
  waitMs(nowMs: number): number {
    return this.#opensAtMs - nowMs;
  }

  recordSuccess(): void {
    this.#failures = 0;
    this.#opensAtMs = Number.NEGATIVE_INFINITY;
  }

  /** Defers requests after a failure. Attempts that ran at the same time count as one failure. */
  recordFailure(pass: number, nowMs: number, retryAfterMs: number): void {
    if (pass === this.#failures) this.#failures += 1;
    const pauseMs = backoffMs(policy, this.#failures, this.#random, retryAfterMs);
    this.#opensAtMs = Math.max(this.#opensAtMs, nowMs + pauseMs);
  }
}

/** Blocks all requests for a backoff period after the service or the connection has failed. */
export class CircuitBreaker {
  readonly #clock: Clock;
  readonly #times: BreakerTimer;
  #reason: string | undefined;

  constructor({ clock, random }: GateDeps) {
    this.#clock = clock;
    this.#times = new BreakerTimer(random);
  }

  /** The reason of the last failure. Undefined if there was none since the last success. */
  get reason(): string | undefined {
    return this.#reason;
  }

  /** Waits until requests may be made. Pass the result to `recordFailure` if the attempt fails. */
  async acquire(signal: AbortSignal): Promise<number> {
    for (let waitMs = this.#waitMs(); waitMs > 0; waitMs = this.#waitMs()) await this.#clock.sleep(waitMs, signal);
    signal.throwIfAborted();
    return this.#times.failures;
  }

  recordSuccess(): void {
    this.#times.recordSuccess();
    this.#reason = undefined;
  }

  recordFailure(pass: number, reason: string, retryAfterMs: number): void {
    this.#reason = reason;
    this.#times.recordFailure(pass, this.#clock.monotonicMs(), retryAfterMs);
  }

  #waitMs(): number {
    return this.#times.waitMs(this.#clock.monotonicMs());
  }
}
