/**
 * Time as a parameter. Durations come from the monotonic clock; the wall clock is only shown and sent to the service.
 */
export interface Clock {
  /** The wall clock in milliseconds since the epoch. It may be wrong and may jump. */
  nowMs(): number;
  /** The monotonic clock in milliseconds since an arbitrary start. */
  monotonicMs(): number;
  /** Resolves after `ms`; rejects with the signal's reason as soon as it is aborted. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  // not node:timers/promises, which makes an error with a stack for each aborted sleep
  sleep: async (ms, signal) => {
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, ms);
    const onAbort = (): void => reject(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      await promise;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
    }
  },
};
