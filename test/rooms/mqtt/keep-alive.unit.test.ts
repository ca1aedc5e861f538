import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { KeepAlive } from '../../../src/mqtt/keep-alive.ts';

const KEEP_ALIVE_MS = 60_000;

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

interface Setup {
  /** So long after a ping the broker says something. */
  readonly answersAfterMs?: number;
}

/** When pings were sent, in seconds, and when the broker was found silent, if it was. */
function run(seconds: number, sentAt: readonly number[], { answersAfterMs }: Setup = {}): unknown {
  const startMs = Date.now();
  const now = (): number => (Date.now() - startMs) / 1000;
  const pings: number[] = [];
  let silentAt: number | undefined;
  const ping = (): void => {
    pings.push(now());
    keepAlive.sent();
    if (answersAfterMs !== undefined) setTimeout(() => keepAlive.heard(), answersAfterMs);
  };
  using keepAlive = new KeepAlive(KEEP_ALIVE_MS, ping, () => (silentAt ??= now()));
  for (const at of sentAt) setTimeout(() => keepAlive.sent(), at * 1000);
  vi.advanceTimersByTime(seconds * 1000);
  return { pings, silentAt };
}

test('the broker hears from us within the keep-alive time, however fast or slowly it answers', () => {
  expect(run(200, [], { answersAfterMs: 0 })).toEqual({ pings: [60, 120, 180], silentAt: undefined });
  expect(run(200, [], { answersAfterMs: 29_999 })).toEqual({ pings: [60, 120, 180], silentAt: undefined });
});

test('what is sent is as good as a ping', () => {
  expect(run(200, [40, 90], { answersAfterMs: 1 })).toEqual({ pings: [150], silentAt: undefined });
});

test('a broker of which nothing comes after a ping is silent, whatever we send meanwhile', () => {
  expect(run(100, [])).toMatchObject({ silentAt: 90 });
  expect(run(100, [61, 75, 89])).toMatchObject({ silentAt: 90 });
});

test('nothing happens after its end', () => {
  run(59, []);
  expect(vi.getTimerCount()).toBe(0);
});
