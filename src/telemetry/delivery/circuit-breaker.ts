import type { Clock } from '../../system/time/clock.ts';
import { backoffMs } from '../../system/time/retry.ts';
import type { RetryPolicy } from '../../system/time/retry.ts';

export interface CircuitBreakerDeps {
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

/** Blocks all requests for a backoff period after the service or the connection has failed. */
export class CircuitBreaker {
  readonly #deps: CircuitBreakerDeps;
  /** The number of failures in a row. */
  #failures = 0;
  #opensAtMs = Number.NEGATIVE_INFINITY;
  #reason: string | undefined;

  constructor(deps: CircuitBreakerDeps) {
    this.#deps = deps;
  }

  /** The reason of the last failure. Undefined if there was none since the last success. */
  get reason(): string | undefined {
    return this.#reason;
  }

  /** Waits until requests may be made. Pass the result to `recordFailure` if the attempt fails. */
  async acquire(signal: AbortSignal): Promise<number> {
    const { clock } = this.#deps;
    const waitMs = (): number => this.#opensAtMs - clock.monotonicMs();
    while (waitMs() > 0) await clock.sleep(waitMs(), signal);
    signal.throwIfAborted();
    return this.#failures;
  }

  recordSuccess(): void {
    this.#failures = 0;
    this.#opensAtMs = Number.NEGATIVE_INFINITY;
    this.#reason = undefined;
  }

  /** Defers requests after a failure. Attempts that ran at the same time count as one failure. */
  recordFailure(pass: number, reason: string, retryAfterMs: number): void {
    const { clock, random } = this.#deps;
    this.#reason = reason;
    if (pass === this.#failures) this.#failures += 1;
    const pauseMs = backoffMs(policy, this.#failures, random, retryAfterMs);
    this.#opensAtMs = Math.max(this.#opensAtMs, clock.monotonicMs() + pauseMs);
  }
}
