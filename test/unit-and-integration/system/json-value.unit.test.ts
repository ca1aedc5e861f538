import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { doubleOf, nestedWithin, parseExactly } from '../../../src/system/json-value.ts';

describe('parseExactly', () => {
  test.each([
    '9007199254740993',
    '-9007199254740993',
    '18446744073709551616',
    '9007199254740993.0',
    '1e400',
    '[-1e999,{"a":123456789012345678901234567890}]',
  ])('keeps %s as it is written', (text) => {
    expect(JSON.stringify(parseExactly(text))).toBe(text);
  });

  test('yields numbers where a double holds them', () => {
    const doubles = fc.double({ noDefaultInfinity: true, noNaN: true }).map((number) => number + 0); // no -0
    fc.assert(
      fc.property(doubles, (number) => {
        expect(parseExactly(JSON.stringify(number))).toBe(number);
      }),
    );
    expect(parseExactly('[1.0, 1e3, 3.14159265358979323846, 1e-400]')).toEqual([1, 1_000, Math.PI, 0]);
  });

  test('changes no integer, of any length and in any place', () => {
    fc.assert(
      fc.property(fc.bigInt(), (integer) => {
        const text = `{"a":[${integer}]}`;
        expect(JSON.stringify(parseExactly(text))).toBe(text);
        expect(doubleOf(parseExactly(String(integer)))).toBe(Number(integer));
      }),
    );
  });

  test('parses everything else as JSON.parse does', () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        expect(parseExactly(text)).toEqual(JSON.parse(text));
      }),
    );
    for (const text of ['NaN', '', '18446744073709551615 Wh']) expect(parseExactly(text)).toBeUndefined();
    expect(parseExactly('{"__proto__":1e400}')).toHaveProperty('__proto__');
  });

  test('survives any depth, and leaves its refusal to the caller', () => {
    const deep = parseExactly(`${'['.repeat(100_000)}1e400${']'.repeat(100_000)}`);
    expect(nestedWithin(deep)).toBe(false);
  });
});

test('nestedWithin counts no exact number as a level', () => {
  expect([nestedWithin(parseExactly('[1e400]'), 1), nestedWithin(parseExactly('[[1e400]]'), 1)]).toEqual([true, false]);
});

test.each(['1', true, null, undefined, {}, [1]])('doubleOf %j is NaN', (value) => {
  expect(doubleOf(value)).toBeNaN();
});
