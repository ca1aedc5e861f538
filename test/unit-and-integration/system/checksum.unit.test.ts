import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { checksumOf, checksums, openChecksum } from '../../../src/system/checksum.ts';
import type { Checksum } from '../../../src/system/checksum.ts';
import { cutAt, fractions } from '../firmware/text/wire-text.ts';

const bytes = fc.uint8Array({ minLength: 1, maxLength: 5_000 });

function valueOf(checksum: Checksum, pieces: readonly Uint8Array[]): number {
  for (const piece of pieces) checksum.update(piece);
  return checksum.value();
}

describe.each([...Object.entries(checksums), ['the fastest', openChecksum] as const])('a checksum, %s', (_, open) => {
  test('depends on the bytes, not on the chunks', () => {
    fc.assert(
      fc.property(bytes, fractions, (content, cuts) => {
        expect(valueOf(open(), cutAt(Buffer.from(content), cuts))).toBe(valueOf(open(), [content]));
      }),
    );
  });

  test('is another one if a single bit differs', () => {
    fc.assert(
      fc.property(bytes, fc.nat(), fc.nat(7), (content, place, bit) => {
        const changed = Uint8Array.from(content);
        const at = place % content.length;
        changed[at] = (changed[at] ?? 0) ^ (1 << bit);
        expect(valueOf(open(), [changed])).not.toBe(valueOf(open(), [content]));
      }),
    );
  });

  test('is another one if blocks are exchanged, missing, or all zeros and longer', () => {
    const [one, other] = [Buffer.alloc(4096, 1), Buffer.alloc(4096, 2)];
    const values = [[one, other], [other, one], [one], [Buffer.alloc(4096)], [Buffer.alloc(8192)]].map((pieces) =>
      valueOf(open(), pieces),
    );
    expect(new Set(values).size).toBe(values.length);
  });

  test('takes memory that threads share', () => {
    const shared = Buffer.from(new SharedArrayBuffer(4096, { maxByteLength: 4096 }), 0, 4096).fill('x');
    expect(valueOf(open(), [shared])).toBe(valueOf(open(), [Buffer.alloc(4096, 'x')]));
  });
});

test('the checksum of bytes in one piece equals the checksum of the same bytes in pieces', () => {
  const content = Buffer.alloc(100_000, 'abc');
  expect(checksumOf(content)).toBe(valueOf(openChecksum(), [content.subarray(0, 1), content.subarray(1)]));
});
