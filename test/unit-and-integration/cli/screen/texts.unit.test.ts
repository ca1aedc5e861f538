import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { renderRows, wrap } from '../../../../src/cli/screen/layout.ts';
import { colored, styleFor, plain } from '../../../../src/cli/screen/style.ts';
import { formatBytes } from '../../../../src/control/presentation/bytes.ts';
import {
  formatDuration,
  formatRelativeTime,
  formatTime,
  parseTime,
} from '../../../../src/control/presentation/time.ts';
import { displayWidth, fitting, printable, printableJson } from '../../../../src/system/log/printable.ts';
import { anyText, steering } from '../any-text.ts';

describe('printable', () => {
  test.each([
    ['gateway-1.4.2', 'gateway-1.4.2'],
    ['Gerät 漢字', 'Gerät 漢字'],
    ['\u001B[2Jgone', '\\x1b[2Jgone'],
    ['a\nb\r\tc', 'a\\nb\\x0d\\x09c'],
    ['\u009B31m', '\\x9b31m'],
    ['abc\u202Efed', 'abc\\u{202e}fed'],
    ['\uD800', '\\u{d800}'],
  ])('writes %j as %s', (text, shown) => {
    expect(printable(text)).toBe(shown);
  });

  test('removes all terminal control, and is idempotent', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const shown = printable(text);
        expect(steering(shown)).toEqual([]);
        expect(shown).not.toContain('\n');
        expect(printable(shown)).toBe(shown);
      }),
    );
  });

  test('JSON stays the same JSON without what steers a terminal', () => {
    fc.assert(
      fc.property(fc.jsonValue(), anyText, fc.constantFrom(undefined, 2), (json, text, indent) => {
        const shown = printableJson({ json, text }, indent);
        expect(steering(shown)).toEqual([]);
        expect(JSON.parse(shown)).toEqual(JSON.parse(JSON.stringify({ json, text })));
      }),
    );
  });
});

describe('wrapping', () => {
  test('breaks at spaces, and long words anywhere', () => {
    expect(wrap('one two three', 8)).toEqual(['one two', 'three']);
    expect(wrap('abcdefghij k', 4)).toEqual(['abcd', 'efgh', 'ij k']);
    expect(wrap('漢字漢字', 5)).toEqual(['漢字', '漢字']);
    expect(wrap('', 10)).toEqual(['']);
  });

  test('never exceeds the columns and loses no word', () => {
    fc.assert(
      fc.property(anyText, fc.integer({ min: 2, max: 100 }), (text, columns) => {
        const lines = wrap(text, columns);
        for (const line of lines) expect(displayWidth(line)).toBeLessThanOrEqual(columns);
        expect(lines.join('').replaceAll(' ', '')).toBe(printable(text).replaceAll(' ', ''));
      }),
    );
  });

  test('an endless text is truncated', () => {
    expect(wrap('x'.repeat(100_000), 80).join('').length).toBeLessThan(1_000);
  });

  test('a beginning fits into the columns and is the longest that does', () => {
    expect(fitting('abc', 2)).toBe('ab');
    expect(fitting('漢字', 3)).toBe('漢');
    expect(fitting('abc', 10)).toBe('abc');
  });
});

describe('rows', () => {
  test('stand under each other with their labels; a row without text is left out', () => {
    const text = renderRows(
      [
        { label: 'One', paragraphs: ['first', 'second'] },
        { label: 'Nothing', paragraphs: [] },
        { label: 'Longer', paragraphs: ['third'] },
      ],
      { columns: 40, paint: plain },
    );
    expect(text).toBe('One     first\n        second\nLonger  third\n');
  });

  test('color text by its tone alone', () => {
    const text = renderRows([{ label: 'One', paragraphs: ['first'], tone: 'bad' }], { columns: 40, paint: colored });
    expect(text).toBe('One  \u001B[31mfirst\u001B[0m\n');
  });
});

test.each([
  [true, {}, colored],
  [true, { TERM: 'xterm', NO_COLOR: '' }, colored],
  [true, { NO_COLOR: '1' }, plain],
  [true, { TERM: 'dumb' }, plain],
  [false, {}, plain],
])('terminal %s with %j', (isTTY, env, paint) => {
  expect(styleFor({ isTTY }, env)).toBe(paint);
});

test.each([
  [0, '0 B'],
  [1_023, '1023 B'],
  [1_024, '1.0 KiB'],
  [241_277_338, '230.1 MiB'],
  [1_342_177_280, '1.25 GiB'],
  [2 ** 41, '2.00 TiB'],
  [2 ** 52, '4096.00 TiB'],
])('%i bytes are %s', (count, text) => {
  expect(formatBytes(count)).toBe(text);
});

describe('time', () => {
  const noon = Date.parse('2026-03-01T12:00:00Z');

  test.each([
    ['2026-03-01T13:05:09Z', 60, '2026-03-01 14:05:09 +01:00'],
    ['2026-03-01T13:05:09Z', -210, '2026-03-01 09:35:09 -03:30'],
    ['2026-12-31T23:30:00Z', 60, '2027-01-01 00:30:00 +01:00'],
    ['soon', 60, 'soon'],
    ['+275760-09-13T00:00:00.000Z', 60, '+275760-09-13T00:00:00.000Z'],
  ])('%s at offset %i is shown as %s', (iso, offset, text) => {
    const when = { nowMs: noon, localOffset: () => offset };
    expect(formatTime(iso, when, 'log')).toBe(text);
    const short = text.replace(/:\d\d (?=[+-])/, ' ');
    expect(formatTime(iso, when).startsWith(short)).toBe(true);
  });

  // Regression: an update of today, installed before the clock was set, was shown as one of 2024.
  test('is marked if the clock was not set at that time', () => {
    const when = { nowMs: Date.parse('2027-01-01T00:00:00Z'), localOffset: () => 60 };
    expect(formatTime('2024-04-12T10:30:00Z', when)).toBe('2024-04-12 11:30 +01:00 (clock not set)');
    expect(formatTime('2024-04-12T10:30:00Z', when, 'log')).toBe('2024-04-12 11:30:00 +01:00 (clock not set)');
    expect(formatTime('2024-04-12T10:30:00Z', when, 'given')).toBe('2024-04-12 11:30:00 +01:00');
  });

  test('has its distance from now in a view', () => {
    const when = { nowMs: noon, localOffset: () => 60 };
    expect(formatTime('2026-03-01T12:15:00Z', when)).toBe('2026-03-01 13:15 +01:00 (in 15 min)');
  });

  test.each([
    ['2026-03-01T12:15:00Z', 'in 15 min'],
    // Regression: "in 29 days", just after a quarantine of 30 days had begun.
    ['2026-03-31T11:59:50Z', 'in 30 days'],
    ['2026-03-03T20:00:00Z', 'in 2 days'],
    ['2026-03-01T15:59:50Z', 'in 4 h'],
    ['2026-03-01T12:59:59.900Z', 'in 1 h'],
    ['2026-03-01T12:00:59.900Z', 'in 1 min'],
    ['2026-03-01T12:00:09.900Z', 'in 10 s'],
    ['2026-02-26T10:00:00Z', '3 days ago'],
    ['2026-03-01T11:59:51Z', '9 s ago'],
    ['2026-03-01T12:00:00Z', 'now'],
    ['never', undefined],
  ])('at noon, %s is %s', (iso, text) => {
    expect(formatRelativeTime(iso, noon)).toBe(text);
  });

  test.each([
    [9_900, '9 s'],
    [200_000, '3 min 20 s'],
    [7_500_000, '2 h 5 min'],
    [7_200_000, '2 h'],
    [200_000_000, '2 days'],
  ])('%i ms last %s', (ms, text) => {
    expect(formatDuration(ms)).toBe(text);
  });

  test('a time that was written out is read back', () => {
    fc.assert(
      fc.property(fc.date({ min: new Date(0), max: new Date('2999-12-31'), noInvalidDate: true }), (date) => {
        expect(parseTime(date.toISOString())).toBe(date.toISOString());
      }),
    );
  });

  test.each(['2026-03-01', '2026-03-01T14:05:09', '2026-13-01T00:00:00Z', '2026-03-01T25:00:00Z', '14:05', ''])(
    'rejects «%s» as a time',
    (text) => {
      expect(parseTime(text)).toBeUndefined();
    },
  );
});
