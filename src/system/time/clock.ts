/** Time as a parameter: durations come from the monotonic clock, the wall clock is only for showing and for the service. */
export interface Clock {
  /** Wall clock, milliseconds since the epoch. May be wrong and may jump. */
  nowMs(): number;
  /** Monotonic, milliseconds since an arbitrary start. */
  monotonicMs(): number;
  /** Resolves after `ms`; rejects with the signal's reason as soon as it is aborted. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  // not by node:timers/promises, which makes an error with a stack for each sleep that is cut short
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
