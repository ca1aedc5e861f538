import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import {
  differ,
  parseContentLength,
  parseContentRange,
  strongValidator,
} from '../../../../src/service/rest/range-response.ts';

describe('validators', () => {
  test.each([
    ['"abc"', '"abc"'],
    ['""', '""'],
    ['W/"abc"', undefined],
    ['abc', undefined],
    ['"a"b"', undefined],
    ['"a\r\nX: y"', undefined],
    [undefined, undefined],
  ])('the strong validator of %j is %j', (etag, expected) => {
    expect(strongValidator(etag)).toBe(expected);
  });

  test('two ETags differ only if both are there and their opaque parts differ', () => {
    expect(differ('"a"', '"b"')).toBe(true);
    expect(differ('W/"a"', '"b"')).toBe(true);
    expect(differ('W/"a"', '"a"')).toBe(false);
    expect(differ(undefined, '"a"')).toBe(false);
  });
});

describe('Content-Range', () => {
  test.each([
    ['bytes 5-9/10', { first: 5, last: 9, totalBytes: 10 }],
    ['Bytes 0-0/1', { first: 0, last: 0, totalBytes: 1 }],
    ['bytes 5-9/*', undefined],
    ['bytes 9-5/10', undefined],
    ['bytes 5-10/10', undefined],
    ['bytes */10', undefined],
    ['lines 5-9/10', undefined],
    ['bytes 5-9', undefined],
    ['bytes 0-1/9999999999999999', undefined],
    [undefined, undefined],
  ])('%j is %j', (header, expected) => {
    expect(parseContentRange(header)).toEqual(expected);
  });

  test('is undefined or has plausible numbers for any text', () => {
    const digits = fc.oneof(fc.nat().map(String), fc.string());
    fc.assert(
      fc.property(digits, digits, digits, (first, last, total) => {
        const range = parseContentRange(`bytes ${first}-${last}/${total}`);
        if (range === undefined) return;
        expect(range.first).toBeLessThanOrEqual(range.last);
        expect(range.last).toBeLessThan(range.totalBytes);
      }),
    );
  });
});

test('Content-Length is digits or nothing', () => {
  expect(parseContentLength('123')).toBe(123);
  expect(parseContentLength('12 3')).toBeUndefined();
  expect(parseContentLength('-1')).toBeUndefined();
  expect(parseContentLength(undefined)).toBeUndefined();
});
