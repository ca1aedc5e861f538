import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { Payload } from '../../../src/mqtt/payload.ts';
import { anyPlaces, payloadOf } from './blocks.ts';

const range = fc
  .tuple(fc.uint8Array({ maxLength: 200 }), anyPlaces, fc.nat(), fc.nat())
  .map(([bytes, places, a, b]) => {
    const [start, end] = [a, b].map((place) => place % (bytes.byteLength + 1)).sort((one, other) => one - other);
    return { bytes, places, start: start ?? 0, end: end ?? 0 };
  });

describe('Payload', () => {
  test('joins and reads any range as if it were one piece', () => {
    fc.assert(
      fc.property(range, ({ bytes, places, start, end }) => {
        const expected = Buffer.from(bytes.subarray(start, end));
        const payload = payloadOf(bytes, places);
        expect(payload.byteLength).toBe(bytes.byteLength);
        expect(payload.join(start, end).equals(expected)).toBe(true);
        const pieces = payload.consume(start, end).map((piece) => Buffer.from(piece));
        expect(Buffer.concat([...pieces]).equals(expected)).toBe(true);
      }),
    );
  });

  test('gives memory back as it is consumed, and the rest when it is released', () => {
    const blocks = [1, 2, 3, 4].map((value) => Buffer.alloc(100_000, value));
    const shared = Buffer.alloc(100_000).subarray(1);
    const payload = new Payload([...blocks, shared]);
    const reading = payload.consume(0, 400_000);
    expect(reading.next().value?.[0]).toBe(1);
    expect(reading.next().value?.[0]).toBe(2);
    expect(blocks.map((block) => block.byteLength)).toEqual([0, 100_000, 100_000, 100_000]);
    payload.release();
    expect(blocks.map((block) => block.byteLength)).toEqual([0, 100_000, 0, 0]);
    expect(shared.byteLength).toBe(99_999);
    expect(reading.next().done).toBe(true);
    expect(blocks[1]?.byteLength).toBe(0);
  });
});
