import fc from 'fast-check';
import { expect, test } from 'vitest';

import { ReceiveBuffers, BUFFER_BYTES } from '../../../../../src/service/rest/receiving/receive-buffers.ts';

function pieceOf(sizeBytes: number, seed: number): Buffer {
  return Buffer.alloc(
    sizeBytes,
    Uint8Array.from({ length: 251 }, (_, index) => index * 7 + seed),
  );
}

const size = fc.oneof(
  fc.nat(300),
  fc.nat(70_000),
  fc.constantFrom(BUFFER_BYTES - 1, BUFFER_BYTES, 2 * BUFFER_BYTES + 1),
);

test('returns the data in order, for any sizes and at any time', () => {
  fc.assert(
    fc.property(fc.array(fc.record({ size, takes: fc.nat(3) }), { maxLength: 30 }), (steps) => {
      const gathering = new ReceiveBuffers();
      const [put, taken]: [Buffer[], Buffer[]] = [[], []];
      const take = (): boolean => {
        const bytes = gathering.take();
        if (bytes !== undefined) taken.push(Buffer.from(bytes));
        return bytes !== undefined;
      };
      for (const [seed, step] of steps.entries()) {
        const piece = pieceOf(step.size, seed);
        put.push(Buffer.from(piece));
        gathering.put(piece);
        for (let count = 0; count < step.takes; count += 1) take();
      }
      while (take());
      expect(Buffer.concat(taken).equals(Buffer.concat(put))).toBe(true);
      expect(gathering.isFull).toBe(false);
    }),
    { numRuns: 60 },
  );
});

test('returns many pieces together, which stay unchanged until the next call', () => {
  const gathering = new ReceiveBuffers();
  for (let count = 0; count < 20; count += 1) gathering.put(pieceOf(16_384, count));
  expect(gathering.isFull).toBe(true);
  const first = gathering.take() ?? Buffer.alloc(0);
  expect(first.byteLength).toBe(BUFFER_BYTES);
  const copy = Buffer.from(first);
  for (let count = 0; count < 40; count += 1) gathering.put(pieceOf(16_384, count + 100));
  expect(first.equals(copy)).toBe(true);
});

test('a piece may be used again once it was put', () => {
  const gathering = new ReceiveBuffers();
  const piece = pieceOf(100, 1);
  const copy = Buffer.from(piece);
  gathering.put(piece);
  piece.fill(0);
  expect(gathering.take()?.equals(copy)).toBe(true);
});
