import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { Deadline } from '../../../../src/system/time/deadline.ts';

const DAY_MS = 86_400_000;
const late = new Error('too late');
const parent = new AbortController();

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
});
afterEach(() => {
  vi.useRealTimers();
});

test('an extended deadline expires later by that time', () => {
  using deadline = new Deadline(1_000, () => late, parent.signal);
  deadline.extend(500);
  vi.advanceTimersByTime(900);
  deadline.extend(500);
  vi.advanceTimersByTime(1_099);
  expect(deadline.signal.aborted).toBe(false);
  vi.advanceTimersByTime(1);
  expect(deadline.signal.reason).toBe(late);
});

test('a deadline that was disposed of comes no more, however it was extended', () => {
  const deadline = new Deadline(1_000, () => late, parent.signal);
  deadline.extend(1_000);
  vi.advanceTimersByTime(1_500);
  deadline[Symbol.dispose]();
  vi.advanceTimersByTime(10_000);
  expect(deadline.signal.aborted).toBe(false);
});

test('a deadline that is extended again and again comes after 30 days more', () => {
  using deadline = new Deadline(1_000, () => late, parent.signal);
  for (let days = 0; days < 30; days += 1) {
    deadline.extend(DAY_MS);
    vi.advanceTimersByTime(DAY_MS);
  }
  expect(deadline.signal.aborted).toBe(false);
  deadline.extend(DAY_MS);
  vi.advanceTimersByTime(1_000);
  expect(deadline.signal.reason).toBe(late);
});
