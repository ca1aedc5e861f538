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

/** When the gate opens. It knows no clock. */
export class GateTimes {
  readonly #random: () => number;
  #failures = 0;
  #opensAtMs = Number.NEGATIVE_INFINITY;

  constructor(random: () => number) {
    this.#random = random;
  }

  /** In a row; whoever goes through gives it back to `closed`. */
  get failures(): number {
    return this.#failures;
  }

  /** Until it is open; not above 0: now. */
  waitMs(nowMs: number): number {
    return this.#opensAtMs - nowMs;
  }

  opened(): void {
    this.#failures = 0;
    this.#opensAtMs = Number.NEGATIVE_INFINITY;
  }

  /** Attempts that were under way together count as one failure. */
  closed(pass: number, nowMs: number, retryAfterMs: number): void {
    if (pass === this.#failures) this.#failures += 1;
    const pauseMs = backoffMs(policy, this.#failures, this.#random, retryAfterMs);
    this.#opensAtMs = Math.max(this.#opensAtMs, nowMs + pauseMs);
  }
}

/** Closed for a while after the service or the way to it has failed; for all that wants through, together. */
export class Gate {
  readonly #clock: Clock;
  readonly #times: GateTimes;
  #reason: string | undefined;

  constructor({ clock, random }: GateContext) {
    this.#clock = clock;
    this.#times = new GateTimes(random);
  }

  /** Why it was closed last, since something went through. */
  get reason(): string | undefined {
    return this.#reason;
  }

  /** Returns when it is open; the answer is given back to `closed` with what came of it. */
  async pass(signal: AbortSignal): Promise<number> {
    for (let waitMs = this.#waitMs(); waitMs > 0; waitMs = this.#waitMs()) await this.#clock.sleep(waitMs, signal);
    signal.throwIfAborted();
    return this.#times.failures;
  }

  opened(): void {
    this.#times.opened();
    this.#reason = undefined;
  }

  closed(pass: number, reason: string, retryAfterMs: number): void {
    this.#reason = reason;
    this.#times.closed(pass, this.#clock.monotonicMs(), retryAfterMs);
  }

  #waitMs(): number {
    return this.#times.waitMs(this.#clock.monotonicMs());
  }
}
