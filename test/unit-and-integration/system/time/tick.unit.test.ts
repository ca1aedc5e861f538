import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { everyTick } from '../../../../src/system/time/tick.ts';

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }));
afterEach(() => void vi.useRealTimers());

test('calls all that have the same interval at the same moments, whenever each began', () => {
  const calls: string[] = [];
  const note = (name: string) => () => void calls.push(`${name} ${performance.now()}`);
  vi.advanceTimersByTime(130);
  using _one = everyTick(100, note('one'));
  vi.advanceTimersByTime(45);
  using _two = everyTick(100, note('two'));
  vi.advanceTimersByTime(250);
  expect(calls).toEqual(['one 200', 'two 200', 'one 300', 'two 300', 'one 400', 'two 400']);
});

test('calls nothing once it is disposed of, not even from within', () => {
  let calls = 0;
  const tick = everyTick(100, () => {
    calls += 1;
    tick[Symbol.dispose]();
  });
  vi.advanceTimersByTime(1_000);
  expect(calls).toBe(1);
});
