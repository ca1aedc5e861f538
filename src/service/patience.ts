import { AgentError } from '../system/errors.ts';
import { retryPauseMs } from '../system/time/retry.ts';
import type { RetryPolicy } from '../system/time/retry.ts';

/** A call of its own takes a few attempts; whoever calls on a schedule comes again anyway. */
export const defaultCallRetry: RetryPolicy = {
  attempts: 4,
  firstDelayMs: 1_000,
  maxDelayMs: 15_000,
  maxRetryAfterMs: 27_000,
};

/** How often a call is tried, and after which pauses. It waits for nothing. */
export class Patience {
  readonly #policy: RetryPolicy;
  readonly #random: () => number;

  constructor(policy: RetryPolicy, random: () => number) {
    this.#policy = policy;
    this.#random = random;
  }

  /** How often in all. */
  get attempts(): number {
    return this.#policy.attempts;
  }

  /** After so many failures of one call, of which this was the last; undefined: it has failed. */
  pauseMs(error: unknown, failures: number): number | undefined {
    if (!isWorthWaiting(error, this.#policy)) return undefined;
    return retryPauseMs(error, failures, this.#policy, this.#random);
  }
}

/** Not: what only a person or another device can end, and pauses that the service wants longer than we would wait. */
function isWorthWaiting(error: unknown, policy: RetryPolicy): boolean {
  if (!(error instanceof AgentError)) return false;
  return !neverSoon.has(error.code) && (error.retryAfterMs ?? 0) <= policy.maxRetryAfterMs;
}

const neverSoon: ReadonlySet<string> = new Set([
  'key-rejected',
  'activation-refused',
  'activation-unanswered',
  'serial-number-shared',
]);
