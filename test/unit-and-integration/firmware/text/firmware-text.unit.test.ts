import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { FirmwareTextDecoder } from '../../../../src/firmware/text/firmware-text.ts';
import type { TextPosition } from '../../../../src/firmware/text/firmware-text.ts';
import { SLICE_BYTES } from '../../../../src/firmware/text/text-kernel.ts';
import {
  blank,
  cutAt,
  decodeChunks,
  decodeText,
  encode,
  encodingOf,
  failureOf,
  fractions,
  jsonString,
  spellings,
  variants,
} from './wire-text.ts';
import type { Spelling } from './wire-text.ts';

const content = fc.uint8Array({ minLength: 1, maxLength: 400 });
const surroundings = fc.record({ cuts: fractions, space: blank });
const variant = fc.constantFrom(...variants);

/** Pseudo-random and the same each time. */
function noise(sizeBytes: number): Buffer {
  const bytes = Buffer.alloc(sizeBytes);
  let state = 1;
  for (let at = 0; at < sizeBytes; at += 1) {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    bytes[at] = state >>> 16;
  }
  return bytes;
}

describe('decoding undoes encoding', () => {
  test('in any encoding, with any escapes and white space, cut anywhere', () => {
    fc.assert(
      fc.property(content, variant, spellings, surroundings, (bytes, kind, spelled, { cuts, space }) => {
        const text = `${space}${jsonString(encode(bytes, kind), spelled)}${space}`;
        const decoded = decodeChunks(cutAt(Buffer.from(text), cuts), encodingOf(kind));
        expect(decoded.equals(bytes)).toBe(true);
      }),
      { numRuns: 400 },
    );
  });

  test('with the encoding detected, wherever the text itself tells it', () => {
    const telling = fc.uint8Array({ minLength: 40, maxLength: 400 });
    fc.assert(
      fc.property(telling, variant, spellings, fractions, (bytes, kind, spelled, cuts) => {
        fc.pre(new Set(encode(bytes, kind).toUpperCase()).size > 8);
        const text = Buffer.from(jsonString(encode(bytes, kind), spelled));
        expect(decodeChunks(cutAt(text, cuts)).equals(bytes)).toBe(true);
      }),
      { numRuns: 200 },
    );
  });

  test.each(variants)('for %s of many slices, at every chunk size around the slice', (kind) => {
    const bytes = noise(100_001);
    const lines: Spelling[] = Array.from({ length: 76 }, (_, n) => (n === 0 ? 'crlf' : 'plain'));
    for (const spelled of [['plain' as const], ['slash' as const], lines]) {
      const text = Buffer.from(jsonString(encode(bytes, kind), spelled));
      for (const size of [SLICE_BYTES - 1, SLICE_BYTES, SLICE_BYTES + 1, 7919, text.length]) {
        const chunks = Array.from({ length: Math.ceil(text.length / size) }, (_, n) =>
          text.subarray(n * size, n * size + size),
        );
        expect(decodeChunks(chunks).equals(bytes)).toBe(true);
      }
    }
  });

  test('byte by byte', () => {
    const bytes = noise(300);
    const text = Buffer.from(`\n ${jsonString(encode(bytes, 'base64'), ['plain', 'slash', 'unicode', 'newline'])}\t`);
    expect(decodeChunks(Array.from(text, (byte) => Uint8Array.of(byte))).equals(bytes)).toBe(true);
  });

  test('behind a byte order mark and more white space than a slice holds', () => {
    const bytes = noise(100);
    for (const spaces of [3 * SLICE_BYTES, SLICE_BYTES - 10]) {
      const text = `${' '.repeat(spaces)}"${encode(bytes, 'hex')}"`;
      expect(decodeText(text).equals(bytes)).toBe(true);
    }
    expect(decodeChunks([Buffer.from(`\uFEFF"${encode(bytes, 'base64')}"`)]).equals(bytes)).toBe(true);
  });
});

describe('a slice', () => {
  test('is never larger than the bound, whatever the chunk', () => {
    const decoder = new FirmwareTextDecoder('auto');
    const text = Buffer.from(jsonString(encode(noise(400_000), 'base64'), ['plain', 'newline']));
    const sizes = [...decoder.push(text)].map((slice) => slice.length);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(SLICE_BYTES);
    expect(sizes.length).toBeGreaterThan(5);
  });
});

describe('a position', () => {
  test('lets another decoder continue with the same bytes', () => {
    fc.assert(
      fc.property(content, variant, spellings, fractions, (bytes, kind, spelled, cuts) => {
        const text = Buffer.from(jsonString(encode(bytes, kind), spelled));
        const first = new FirmwareTextDecoder(encodingOf(kind));
        const before: Buffer[] = [];
        for (const chunk of cutAt(text, cuts)) {
          for (const slice of first.push(chunk)) before.push(Buffer.from(slice));
          const { position } = first;
          if (position === undefined) continue;
          const after = decodeChunks([text.subarray(position.offset)], position);
          expect(Buffer.concat([...before, after]).equals(bytes)).toBe(true);
        }
      }),
      { numRuns: 300 },
    );
  });

  test('exists between two slices, while the second is still to come', () => {
    const bytes = noise(200_000);
    const text = Buffer.from(jsonString(encode(bytes, 'base64'), ['slash']));
    const first = new FirmwareTextDecoder('auto');
    const before: Buffer[] = [];
    const positions: TextPosition[] = [];
    for (const slice of first.push(text)) {
      before.push(Buffer.from(slice));
      const { position } = first;
      if (position === undefined) continue;
      positions.push(position);
      const after = decodeChunks([text.subarray(position.offset)], position);
      expect(Buffer.concat([...before, after]).equals(bytes)).toBe(true);
    }
    expect(positions.length).toBeGreaterThan(3);
  });

  test('does not exist before the string, while the alphabet is open, in the padding, or behind the string', () => {
    const positionAfter = (text: string): TextPosition | undefined => {
      const decoder = new FirmwareTextDecoder('base64');
      for (const _ of decoder.push(Buffer.from(text)));
      return decoder.position;
    };
    expect(positionAfter(' ')).toBeUndefined();
    expect(positionAfter('"AAAA')).toEqual({ offset: 5, encoding: 'base64', carry: '' });
    expect(positionAfter('"AAAAAA\\')).toEqual({ offset: 7, encoding: 'base64', carry: 'AA' });
    expect(positionAfter('"AAAAAA=')).toBeUndefined();
    expect(positionAfter('"AAAA"')).toBeUndefined();

    const open = new FirmwareTextDecoder('auto');
    for (const _ of open.push(Buffer.from(`"${'A'.repeat(SLICE_BYTES)}`)));
    expect(open.position).toBeUndefined();
  });
});

describe('an error is reported with its offset in the text', () => {
  test.each([
    ['', 'text-truncated @0'],
    ['  ', 'text-truncated @2'],
    ['"', 'text-truncated @1'],
    ['"AAAA', 'text-truncated @5'],
    ['"AAAA\\', 'text-truncated @6'],
    ['"AAAA\\u00', 'text-truncated @9'],
    ['{"a":1}', 'text-not-a-string @0'],
    [' null', 'text-not-a-string @1'],
    ['<html>', 'text-not-a-string @0'],
    ['\xEF"AAAA"', 'text-not-a-string @1'],
    ['\xEF\xBB"AAAA"', 'text-not-a-string @2'],
    [' \xEF\xBB\xBF"AAAA"', 'text-not-a-string @1'],
    ['\xEF "AAAA"', 'text-not-a-string @1'],
    ['"AAAA""', 'text-trailing @6'],
    ['"AAAA" x', 'text-trailing @7'],
    ['"AAAA"\0', 'text-trailing @6'],
    ['"AA\\qA"', 'text-bad-escape @3'],
    ['"AA\\U0041A"', 'text-bad-escape @3'],
    ['"AA\\u00G1A"', 'text-bad-escape @3'],
    ['"AA\\x', 'text-bad-escape @3'],
    ['"AA\\\nAA"', 'text-bad-escape @3'],
    ['"AA\\"AA"', 'text-illegal-character @3'],
    ['"AA\\\\AA"', 'text-illegal-character @3'],
    ['"AA\\bAA"', 'text-illegal-character @3'],
    ['"AA\\u0001AA"', 'text-illegal-character @3'],
    ['"AA\\uD83D\\uDE00"', 'text-illegal-character @3'],
    ['"AA\\u00e9A"', 'text-illegal-character @3'],
    ['"AA\nAA"', 'text-illegal-character @3'],
    ['"AA\0AA"', 'text-illegal-character @3'],
    ['"AA\xE9A"', 'text-illegal-character @3'],
    ['"AAA*AAAA"', 'text-illegal-character @4'],
    ['"+AA-"', 'text-illegal-character @4'],
    ['"\\nAA\\u0041\\u0021AA\\/"', 'text-illegal-character @11'],
    ['"A"', 'text-bad-padding @2'],
    ['"Gx==="', 'text-bad-padding @5'],
    ['"G==="', 'text-bad-padding @2'],
    ['"Gx="', 'text-bad-padding @4'],
    ['"Gg==Gg=="', 'text-bad-padding @5'],
    ['"Gx=x"', 'text-bad-padding @4'],
    ['"Gx=="', 'text-bad-padding @5'],
    ['"Gxx="', 'text-bad-padding @5'],
    ['"+g"', 'text-bad-padding @3'],
    ['"abc"', 'text-odd-hex @4'],
    ['""', 'text-empty @1'],
    ['" \\n "', 'text-empty @5'],
  ])('%j', (text, failure) => {
    expect(failureOf(() => decodeText(text))).toBe(failure);
  });

  test.each([
    ['hex', '"0g"', 'text-illegal-character @2'],
    ['hex', `"${'0'.repeat(100)} ${'0'.repeat(40)}Z"`, 'text-illegal-character @142'],
    ['hex', '"0\\t1\\u0032"', 'text-odd-hex @11'],
    ['base64', '"AA-A"', 'text-illegal-character @3'],
    ['base64', '"AA"', 'text-bad-padding @3'],
    ['base64url', '"AA/A"', 'text-illegal-character @3'],
    ['base64url', '"AA="', 'text-bad-padding @4'],
  ] as const)('as %s: %j', (encoding, text, failure) => {
    expect(failureOf(() => decodeText(text, encoding))).toBe(failure);
  });

  test('the place does not depend on the chunks, and noise never does more than fail', () => {
    const noisy = fc.string({
      unit: fc.constantFrom('"', '\\', 'u', '0', 'n', '/', 'A', '=', '-', '+', ' ', '\n', '\xff'),
    });
    fc.assert(
      fc.property(noisy, fractions, (inside, cuts) => {
        const text = Buffer.from(`"AAAA${inside}"`, 'latin1');
        const whole = failureOf(() => decodeChunks([text], 'base64'));
        expect(failureOf(() => decodeChunks(cutAt(text, cuts), 'base64'))).toBe(whole);
      }),
      { numRuns: 500 },
    );
  });

  test('a character that does not belong is found wherever it stands, at its place', () => {
    const encoded = encode(noise(200_000), 'base64');
    const text = Buffer.from(jsonString(encoded, ['slash']));
    fc.assert(
      fc.property(fc.double({ min: 0, max: 1, noNaN: true }), fractions, (place, cuts) => {
        const damaged = Buffer.from(text);
        const at = 1 + Math.floor(place * (text.length - 3));
        fc.pre(damaged[at] !== 0x5c && damaged[at - 1] !== 0x5c);
        damaged[at] = 0x2a;
        expect(failureOf(() => decodeChunks(cutAt(damaged, cuts)))).toBe(`text-illegal-character @${at}`);
      }),
      { numRuns: 60 },
    );
  });

  test('any text that ends early is truncated, and may be tried again', () => {
    const text = Buffer.from(jsonString(encode(noise(150), 'base64'), ['plain', 'unicode', 'newline']));
    for (let end = 0; end < text.length; end += 1) {
      expect(failureOf(() => decodeChunks([text.subarray(0, end)]))).toBe(`text-truncated @${end}`);
    }
    expect(() => decodeText('"AAAA')).toThrow(expect.objectContaining({ remedy: 'retry', exit: 'protocol' }));
  });
});

describe('which encoding', () => {
  const zeros = Buffer.alloc(SLICE_BYTES);

  test.each([
    ['hex digits only', Buffer.from('deadbeef', 'hex'), 'hex'],
    ['an image of zeros in base64', Buffer.alloc(3000), 'base64'],
    ['an image of zeros in hex', Buffer.alloc(3000), 'hex'],
    ['an image that begins with more zeros than a slice', Buffer.concat([zeros, noise(5000)]), 'base64url-unpadded'],
    ['the same in hex', Buffer.concat([zeros, noise(5000)]), 'HEX'],
    [
      'zeros with a few small numbers among them',
      Buffer.concat([zeros.map((_, n) => (n % 6000 === 2 ? 3 : 0)), noise(9)]),
      'base64',
    ],
  ] as const)('%s', (_, bytes, kind) => {
    expect(decodeText(jsonString(encode(bytes, kind))).equals(bytes)).toBe(true);
  });

  test.each([
    ['an artifact', 'version\0'],
    ['gzip', '\x1f\x8b\x08'],
    ['zstd', '\x28\xb5\x2f\xfd'],
    ['xz', '\xfd7zXZ\0'],
  ])('%s in base64 can never be taken for hex', (_, beginning) => {
    expect(Buffer.from(beginning, 'latin1').toString('base64').slice(0, 6)).toMatch(/[^0-9a-fA-F=]/);
  });

  test('the alphabet is settled by the first character of only one of them', () => {
    expect(decodeText('"AAA-AAA_AA"')).toHaveLength(7);
    expect(failureOf(() => decodeText(`"${'A'.repeat(99)}-${'A'.repeat(40)}+"`))).toBe('text-illegal-character @141');
    expect(failureOf(() => decodeText(`"A/${'A'.repeat(SLICE_BYTES)}_"`))).toBe(
      `text-illegal-character @${SLICE_BYTES + 3}`,
    );
  });
});
