import { AgentError } from '../errors.ts';
import type { Clock } from './clock.ts';

export interface RetryPolicy {
  /** The number of attempts, the first one included. */
  readonly attempts: number;
  /** The upper bound of the first pause; it doubles with each failure. */
  readonly firstDelayMs: number;
  /** The upper bound of every pause that we choose ourselves. */
  readonly maxDelayMs: number;
  /** The upper bound of a pause that the server requests (`Retry-After`). */
  readonly maxRetryAfterMs: number;
}

export interface RetryDeps {
  readonly clock: Pick<Clock, 'sleep'>;
  /** 0 ≤ random() < 1 */
  readonly random: () => number;
  readonly onRetry?: (error: AgentError, delayMs: number) => void;
}

/**
 * Exponential backoff with full jitter: a random pause between 0 and min(max, first × 2ⁿ). If the server requested a
 * pause (bounded, too), the random one comes after it and is drawn from a range at least as long, since many clients
 * may have been given the same time.
 */
export function backoffMs(policy: RetryPolicy, failures: number, random: () => number, retryAfterMs = 0): number {
  const ceiling = Math.min(policy.maxDelayMs, policy.firstDelayMs * 2 ** (failures - 1));
  const askedMs = Math.min(retryAfterMs, policy.maxRetryAfterMs);
  return askedMs + random() * Math.max(ceiling, Math.min(askedMs, policy.maxDelayMs));
}

/**
 * Returns the pause after this number of failures, or undefined if waiting cannot fix the last one, or no attempts are
 * left.
 */
export function retryPauseMs(
  error: unknown,
  failures: number,
  policy: RetryPolicy,
  random: () => number,
): number | undefined {
  if (!(error instanceof AgentError) || error.remedy === 'give-up' || failures >= policy.attempts) return undefined;
  return backoffMs(policy, failures, random, error.retryAfterMs);
}

/** Tries, waits, and tries again. Stops at the first failure that waiting cannot fix, or when no attempts are left. */
export async function retry<T>(
  attempt: () => Promise<T>,
  policy: RetryPolicy,
  { random, ...deps }: RetryDeps,
  signal: AbortSignal,
): Promise<T> {
  const pauseMs: PauseAfter = (error, failures) => retryPauseMs(error, failures, policy, random);
  return retryAfter(attempt, pauseMs, deps, signal);
}

/** Returns the pause after this number of failures, or undefined for no further attempt. */
export type PauseAfter = (error: unknown, failures: number) => number | undefined;

/** Like `retry`, with pauses that the caller decides. */
export async function retryAfter<T>(
  attempt: () => Promise<T>,
  pauseAfter: PauseAfter,
  { clock, onRetry }: Omit<RetryDeps, 'random'>,
  signal: AbortSignal,
): Promise<T> {
  for (let failures = 1; ; failures += 1) {
    try {
      return await attempt();
    } catch (error) {
      const delayMs = pauseAfter(error, failures);
      if (delayMs === undefined) throw error;
      if (error instanceof AgentError) onRetry?.(error, delayMs);
      await clock.sleep(delayMs, signal);
    }
  }
}
