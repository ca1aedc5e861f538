import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { validityOf } from '../../../../src/firmware/trust/key-validity.ts';
import { parseUtcTime } from '../../../../src/system/time/utc-time.ts';

const at = (text: string): number => parseUtcTime(text) ?? Number.NaN;
const life = { notBeforeMs: at('2026-01-01'), notAfterMs: at('2030-01-01') };

describe('a key from 2026 until 2030', () => {
  test.each([
    ['a set clock within its time', undefined, '2027-05-05', 'valid'],
    ['a set clock before its time', undefined, '2025-12-31T23:59:59Z', 'not-yet'],
    ['a set clock at its beginning', undefined, '2026-01-01', 'valid'],
    ['a set clock at its end', undefined, '2030-01-01', 'expired'],
    ['a set clock behind what the service says', '2030-01-01', '2027-05-05', 'expired'],
    ['no clock, and nobody who says anything', undefined, undefined, 'unknown'],
    ['no clock, and a service that says it is 2027', '2027-05-05', undefined, 'unknown'],
    ['no clock, and a service that says it is 2031', '2031-01-01', undefined, 'expired'],
    ['no clock, and a service that says it is 2020', '2020-01-01', undefined, 'unknown'],
  ] as const)('by %s', (_, atLeast, now, validity) => {
    const time = { atLeastMs: parseUtcTime(atLeast), nowMs: parseUtcTime(now) };
    expect(validityOf(life, time)).toBe(validity);
  });
});

const moment = fc.option(fc.integer({ min: 0, max: 100 }), { nil: undefined });
const lives = fc.record({ notBeforeMs: moment, notAfterMs: moment });

test('an unsynchronized clock makes no valid key invalid, for any lower limit of time', () => {
  fc.assert(
    fc.property(lives, fc.integer({ min: 0, max: 100 }), fc.nat({ max: 100 }), (some, trueNowMs, behindMs) => {
      const { notBeforeMs = -1, notAfterMs = 101 } = some;
      fc.pre(notBeforeMs <= trueNowMs && trueNowMs < notAfterMs);
      const atLeastMs = trueNowMs - behindMs;
      expect(['valid', 'unknown']).toContain(validityOf(some, { atLeastMs, nowMs: undefined }));
      expect(['valid', 'unknown']).toContain(validityOf(some, { atLeastMs: undefined, nowMs: undefined }));
      expect(validityOf(some, { atLeastMs, nowMs: trueNowMs })).toBe('valid');
    }),
  );
});

test('a key that has expired by any known time is expired, and stays so', () => {
  fc.assert(
    fc.property(lives, moment, moment, fc.nat({ max: 50 }), (some, atLeastMs, nowMs, laterMs) => {
      fc.pre(validityOf(some, { atLeastMs, nowMs }) === 'expired');
      const later = (ms: number | undefined): number | undefined => (ms === undefined ? undefined : ms + laterMs);
      expect(validityOf(some, { atLeastMs: later(atLeastMs), nowMs: later(nowMs) })).toBe('expired');
    }),
  );
});

test.each(['2026-02-30', '2026-13-01', '2026-01-01T25:00Z', '2026-01-01T10:00:00', '1/2/2026', 'x'])(
  '%s is not a time in UTC',
  (text) => {
    expect(parseUtcTime(text)).toBeUndefined();
  },
);
