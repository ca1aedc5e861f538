import process from 'node:process';

import fc from 'fast-check';
import { createTask } from 'node-cron';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { cronTimes, isCronExpression } from '../../../../src/system/time/cron.ts';

const MINUTE_MS = 60_000;
const before = process.env['TZ'];

beforeEach(() => {
  process.env['TZ'] = 'UTC';
});

afterEach(() => {
  if (before === undefined) delete process.env['TZ'];
  else process.env['TZ'] = before;
});

function timesOf(expression: string, from: string, count: number): readonly string[] {
  const next = cronTimes(expression);
  const found: string[] = [];
  for (let ms = next(Date.parse(from)); found.length < count; ms = next(ms)) found.push(new Date(ms).toISOString());
  return found.map((text) => text.replace(':00.000Z', 'Z'));
}

describe('where clocks are set forward', () => {
  // node-cron#509, kelektiv/node-cron#563: the day, or the whole week, was skipped.
  test.each(['30 2 * * *', '30 2 * * 0', '30 2 28 3 *', '*/7 2 * * *'])(
    'a time that is left out is due immediately: %s',
    (expression) => {
      process.env['TZ'] = 'Europe/Berlin';
      expect(timesOf(expression, '2027-03-27T12:00Z', 1)).toEqual(['2027-03-28T01:00Z']);
    },
  );

  test('an interval stays what it is', () => {
    process.env['TZ'] = 'Europe/Berlin';
    const expected = ['2027-03-28T00:45Z', '2027-03-28T01:00Z', '2027-03-28T01:15Z'];
    expect(timesOf('*/15 * * * *', '2027-03-28T00:30Z', 3)).toEqual(expected);
  });
});

describe('where clocks are set back', () => {
  // node-cron#157, #881: no look for 75 minutes.
  test('an interval stays what it is', () => {
    process.env['TZ'] = 'Europe/Berlin';
    const times = timesOf('*/15 * * * *', '2027-10-30T23:20Z', 12).map((text) => Date.parse(text));
    expect(times.slice(1).map((ms, index) => ms - (times[index] ?? 0))).toEqual(Array(11).fill(15 * MINUTE_MS));
  });

  test('a time that comes twice is due twice', () => {
    process.env['TZ'] = 'Europe/Berlin';
    const expected = ['2027-10-31T00:30Z', '2027-10-31T01:30Z', '2027-11-01T01:30Z'];
    expect(timesOf('30 2 * * *', '2027-10-30T12:00Z', 3)).toEqual(expected);
  });
});

/** Zones with changes of an hour, of half an hour, at midnight, without any, and of a whole day. */
const zones = [
  ['Europe/Berlin', '2027-03-27T00:00Z'],
  ['Europe/Berlin', '2027-10-30T00:00Z'],
  ['Australia/Lord_Howe', '2027-04-03T00:00Z'],
  ['Australia/Lord_Howe', '2027-10-02T00:00Z'],
  ['America/Santiago', '2027-09-04T00:00Z'],
  ['America/St_Johns', '2027-11-06T00:00Z'],
  ['Asia/Kathmandu', '2027-03-27T00:00Z'],
  ['Pacific/Apia', '2011-12-29T00:00Z'],
] as const;

/** A time is due if its local minute matches, or if a minute that was left out just before it does. */
function modelOf(expression: string): (afterMs: number) => number {
  const utc = createTask(expression, () => {}, { timezone: 'Etc/UTC' });
  const localOf = (ms: number): number => ms - new Date(ms).getTimezoneOffset() * MINUTE_MS;
  const isDue = (ms: number): boolean => {
    const localMs = localOf(ms);
    for (let leftOut = localOf(ms - MINUTE_MS) + MINUTE_MS; leftOut < localMs; leftOut += MINUTE_MS)
      if (utc.match(new Date(leftOut))) return true;
    return utc.match(new Date(localMs));
  };
  return (afterMs) => {
    let ms = (Math.floor(afterMs / MINUTE_MS) + 1) * MINUTE_MS;
    while (!isDue(ms)) ms += MINUTE_MS;
    return ms;
  };
}

test('finds the same times as a model that tries each minute', () => {
  const minutes = fc.constantFrom('*', '*/15', '0', '30', '59', '5,50', '10-20');
  const hours = fc.constantFrom('*', '*/2', '0', '1', '2', '3', '1-3', '23');
  const start = fc.integer({ min: 0, max: 2 * 24 * 60 });
  fc.assert(
    fc.property(fc.constantFrom(...zones), minutes, hours, start, ([zone, day], minute, hour, offset) => {
      process.env['TZ'] = zone;
      const expression = `${minute} ${hour} * * *`;
      const afterMs = Date.parse(day) + offset * MINUTE_MS;
      const found = new Date(cronTimes(expression)(afterMs));
      expect([expression, zone, found]).toEqual([expression, zone, new Date(modelOf(expression)(afterMs))]);
    }),
    { numRuns: 300 },
  );
}, 60_000);

test('finds the same days as node-cron', () => {
  const dates = ['*', '1', '31', '29,30', 'L', 'L-3', 'LW', '1W', '15W', '31W', '10-12,L'];
  const weekdays = ['*', '0', '7', 'mon-fri', '1#2', '5L', '0#5', '3,5L'];
  const all = ['*', '2', 'jan-mar', '*/3'].flatMap((month) =>
    dates.flatMap((date) => weekdays.map((weekday) => `0 0 ${date} ${month} ${weekday}`)),
  );
  // Each is checked once: to find that one is never due takes a search of 41 years.
  const expressions = fc.constantFrom(...all.filter(isCronExpression));
  fc.assert(
    fc.property(expressions, fc.integer({ min: 0, max: 4_000 }), (expression, days) => {
      const afterMs = Date.UTC(2027, 0, 1 + days) - 1;
      const task = createTask(expression, () => {}, { timezone: 'Etc/UTC' });
      const isNow = cronTimes(expression)(afterMs) === afterMs + 1;
      expect([expression, afterMs, isNow]).toEqual([expression, afterMs, task.match(new Date(afterMs + 1))]);
      void task.destroy();
    }),
    { numRuns: 2_000 },
  );
}, 60_000);

test('an expression may have seconds, and rare days', () => {
  expect(cronTimes('*/20 * * * * *')(Date.parse('2027-01-01T00:00:20.500Z'))).toBe(Date.parse('2027-01-01T00:00:40Z'));
  expect(timesOf('0 0 29 2 1', '2027-01-01T00:00Z', 2)).toEqual(['2044-02-29T00:00Z', '2072-02-29T00:00Z']);
});

test.each(['', '99 * * * *', '0 0 30 2 *', '0 0 L-30 2 *', '0 0 31W 2 *', '0 0 1 1 1 * *'])(
  'refuses an invalid expression, and an expression that is never due: "%s"',
  (text) => {
    expect(isCronExpression(text)).toBe(false);
  },
);
