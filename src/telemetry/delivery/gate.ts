import type { Clock } from '../../system/time/clock.ts';
import { backoffMs } from '../../system/time/retry.ts';
import type { RetryPolicy } from '../../system/time/retry.ts';

export interface GateContext {
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

/** Closed for a while after the service or the way to it has failed; for all that wants through, together. */
export class Gate {
  readonly #context: GateContext;
  #failures = 0;
  #opensAtMs = Number.NEGATIVE_INFINITY;
  #reason: string | undefined;

  constructor(context: GateContext) {
    this.#context = context;
  }

  /** Why it was closed last, since something went through. */
  get reason(): string | undefined {
    return this.#reason;
  }

  /** Returns when it is open; the answer is given back to `closed` with what came of it. */
  async pass(signal: AbortSignal): Promise<number> {
    const { clock } = this.#context;
    for (let waitMs = this.#waitMs(); waitMs > 0; waitMs = this.#waitMs()) await clock.sleep(waitMs, signal);
    signal.throwIfAborted();
    return this.#failures;
  }

  opened(): void {
    this.#failures = 0;
    this.#reason = undefined;
    this.#opensAtMs = Number.NEGATIVE_INFINITY;
  }

  /** Attempts that were under way together count as one failure. */
  closed(pass: number, reason: string, retryAfterMs: number): void {
    const { clock, random } = this.#context;
    this.#reason = reason;
    if (pass === this.#failures) this.#failures += 1;
    const pauseMs = backoffMs(policy, this.#failures, random, retryAfterMs);
    this.#opensAtMs = Math.max(this.#opensAtMs, clock.monotonicMs() + pauseMs);
  }

  #waitMs(): number {
    return this.#opensAtMs - this.#context.clock.monotonicMs();
  }
}
