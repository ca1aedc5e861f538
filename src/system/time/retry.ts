import { AgentError } from '../errors.ts';
import type { Clock } from './clock.ts';

export interface RetryPolicy {
  /** How often in all, the first time included. */
  readonly attempts: number;
  /** Upper bound of the first pause; doubles with each failure. */
  readonly firstDelayMs: number;
  /** Upper bound of every pause that we choose ourselves. */
  readonly maxDelayMs: number;
  /** Upper bound of a pause that the other side asks for (`Retry-After`). */
  readonly maxRetryAfterMs: number;
}

export interface RetryContext {
  readonly clock: Pick<Clock, 'sleep'>;
  /** 0 ≤ random() < 1 */
  readonly random: () => number;
  readonly onRetry?: (error: AgentError, delayMs: number) => void;
}

/**
 * Exponential backoff with full jitter: a uniform pause between 0 and min(max, first × 2ⁿ); at least what the other
 * side asked for, itself bounded.
 */
export function backoffMs(policy: RetryPolicy, failures: number, random: () => number, retryAfterMs = 0): number {
  const ceiling = Math.min(policy.maxDelayMs, policy.firstDelayMs * 2 ** (failures - 1));
  return Math.max(random() * ceiling, Math.min(retryAfterMs, policy.maxRetryAfterMs));
}

/** Tries, waits, tries again; stops at the first failure that waiting cannot cure, or when the attempts are used up. */
export async function retry<T>(
  attempt: () => Promise<T>,
  policy: RetryPolicy,
  context: RetryContext,
  signal: AbortSignal,
): Promise<T> {
  for (let failures = 1; ; failures += 1) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof AgentError) || error.remedy === 'give-up' || failures >= policy.attempts) throw error;
      const delayMs = backoffMs(policy, failures, context.random, error.retryAfterMs);
      context.onRetry?.(error, delayMs);
      await context.clock.sleep(delayMs, signal);
    }
  }
}
