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
  for (const piece of cutUp(bytes, step)) result.push(piece);
  result.beginAt('start');
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
        const replay = seen(text.subarray(0, length), first);
        for (const piece of cutUp(text.subarray(0, length), second)) expect(replay.push(piece)).toHaveLength(0);
        expect(replay.isReplay).toBe(false);
      }),
      { numRuns: 40 },
    );
  });

  test('continues with new bytes after interrupted readings, from the start and from the end', () => {
    const reading = fc.record({ place: fc.constantFrom('start', 'end'), length: size, step });
    fc.assert(
      fc.property(fc.array(reading, { maxLength: 6 }), (readings) => {
        const known = new BlockChecksums();
        const fresh: Uint8Array[] = [];
        for (const { place, length, step: by } of [
          ...readings,
          { place: 'start', length: text.byteLength, step: 70_000 } as const,
        ]) {
          known.beginAt(place);
          const begin = place === 'start' ? 0 : known.sizeBytes;
          for (const piece of cutUp(text.subarray(begin, begin + length), by))
            fresh.push(known.push(piece) ?? Buffer.from('differs'));
        }
        expect(Buffer.concat(fresh).equals(text)).toBe(true);
        expect(known).toMatchObject({ sizeBytes: text.byteLength, isReplay: false });
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
        const replay = seen(text.subarray(0, length), 64 * 1024);
        expect(cutUp(changed, cut).some((piece) => replay.push(piece) === undefined)).toBe(true);
      }),
      { numRuns: 40 },
    );
  });
});
