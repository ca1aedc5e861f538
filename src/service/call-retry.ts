import { AgentError } from '../system/errors.ts';
import { retryPauseMs } from '../system/time/retry.ts';
import type { RetryPolicy } from '../system/time/retry.ts';

/** A single call makes a few attempts; callers with a schedule come back anyway. */
export const defaultCallRetry: RetryPolicy = {
  attempts: 4,
  firstDelayMs: 1_000,
  maxDelayMs: 15_000,
  maxRetryAfterMs: 27_000,
};

/** Decides how often a call is tried, and how long the pauses are. It does not wait itself. */
export class CallRetry {
  readonly #policy: RetryPolicy;
  readonly #random: () => number;

  constructor(policy: RetryPolicy, random: () => number) {
    this.#policy = policy;
    this.#random = random;
  }

  /** The number of attempts in all. */
  get attempts(): number {
    return this.#policy.attempts;
  }

  /** Returns the pause after this number of failures of a call, or undefined if the call has failed. */
  pauseMs(error: unknown, failures: number): number | undefined {
    if (!isRetryable(error, this.#policy)) return undefined;
    return retryPauseMs(error, failures, this.#policy, this.#random);
  }
}

/**
 * True if waiting here makes sense. It does not if only an operator or another device can end the failure, or if the
 * service wants a longer pause than the policy allows.
 */
function isRetryable(error: unknown, policy: RetryPolicy): boolean {
  if (!(error instanceof AgentError)) return false;
  return !neverSoon.has(error.code) && (error.retryAfterMs ?? 0) <= policy.maxRetryAfterMs;
}

const neverSoon: ReadonlySet<string> = new Set([
  'key-rejected',
  'activation-refused',
  'activation-timeout',
  'serial-number-shared',
]);
