import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { BlockChecksums } from '../../../../src/service/rest/replay-check.ts';
import { randomContent } from '../../../fakes/service/firmware-content.ts';

const MEBIBYTE = 1024 * 1024;
const text = randomContent(3 * MEBIBYTE).read(0, 3 * MEBIBYTE);

function* cutUp(bytes: Uint8Array, step: number): Generator<Uint8Array> {
  for (let offset = 0; offset < bytes.byteLength; offset += step) yield bytes.subarray(offset, offset + step);
}

function seen(bytes: Uint8Array, step: number): BlockChecksums {
  const result = new BlockChecksums();
  for (const piece of cutUp(bytes, step)) result.append(piece);
  return result;
}

const size = fc.oneof(
  fc.nat(text.byteLength),
  fc.constantFrom(0, 1, MEBIBYTE - 1, MEBIBYTE, 2 * MEBIBYTE, 3 * MEBIBYTE),
);
const step = fc.integer({ min: 5_000, max: 2 * MEBIBYTE });

describe('a text that is read again', () => {
  test('is recognized for any chunks of both readings', () => {
    fc.assert(
      fc.property(size, step, step, (length, first, second) => {
        const replay = seen(text.subarray(0, length), first).replay();
        for (const piece of cutUp(text.subarray(0, length), second)) expect(replay.push(piece)).toBe(true);
        expect(replay.remainingBytes).toBe(0);
      }),
      { numRuns: 40 },
    );
  });

  test('is not taken for the same if a single bit differs, wherever it is', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: text.byteLength }), fc.nat(), step, (length, place, cut) => {
        const changed = Buffer.from(text.subarray(0, length));
        const index = place % length;
        changed[index] = (changed[index] ?? 0) ^ 1;
        const replay = seen(text.subarray(0, length), 64 * 1024).replay();
        const verdicts = [...cutUp(changed, cut)].map((piece) => replay.push(piece));
        expect(verdicts).toContain(false);
      }),
      { numRuns: 40 },
    );
  });
});
