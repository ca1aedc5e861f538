import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { ByteReader } from '../../../src/firmware/byte-reader.ts';
import { chunkSizes, gathered, inChunks } from './chunks.ts';

const bytes = Uint8Array.from({ length: 5000 }, (_, at) => (at * 7 + (at >> 8)) & 0xff);

interface Step {
  readonly kind: 'peek' | 'read' | 'stream' | 'first-slice';
  readonly size: number;
}

const steps = fc.array(
  fc.record<Step>({ kind: fc.constantFrom('peek', 'read', 'stream', 'first-slice'), size: fc.nat({ max: 900 }) }),
  { maxLength: 12 },
);

async function perform(reader: ByteReader, { kind, size }: Step): Promise<Uint8Array> {
  switch (kind) {
    case 'peek':
      return reader.peek(size);
    case 'read':
      return reader.read(size);
    case 'stream':
      return gathered(reader.stream(size));
    case 'first-slice':
      for await (const slice of reader.stream(size)) return Buffer.from(slice);
      return new Uint8Array();
  }
}

describe('a byte reader', () => {
  test('returns the same bytes for any chunks and any requests', async () => {
    await fc.assert(
      fc.asyncProperty(chunkSizes(fc), steps, async (sizes, wanted) => {
        const reader = new ByteReader(inChunks(bytes, sizes), 'test');
        const possible = wanted.filter(
          (_, at) => wanted.slice(0, at + 1).reduce((sum, { size }) => sum + size, 0) < 5000,
        );
        for (const step of possible) {
          const start = reader.offset;
          const given = await perform(reader, step);
          const taken = step.kind === 'peek' ? 0 : given.length;
          const whole = step.kind === 'first-slice' ? given.length : step.size;
          expect(Buffer.from(given)).toEqual(Buffer.from(bytes.subarray(start, start + whole)));
          expect(reader.offset).toBe(start + taken);
        }
        const { offset } = reader;
        expect(await gathered(reader.rest())).toEqual(Buffer.from(bytes.subarray(offset)));
        expect(await reader.atEnd()).toBe(true);
      }),
    );
  });

  test('keeps what it read although the source overwrites its chunks', async () => {
    for (const size of [100, 400]) {
      const reader = new ByteReader(inChunks(bytes, [size]), 'test');
      const parts = [await gathered(reader.stream(10)), await reader.read(50), await reader.read(400)];
      expect(Buffer.concat(parts)).toEqual(Buffer.from(bytes.subarray(0, 460)));
    }
  });

  test.each(['read', 'stream'] as const)('reports where the bytes ended when a %s needs more', async (kind) => {
    const reader = new ByteReader(inChunks(bytes, [700]), 'a test');
    await reader.read(4000);
    const wanted = kind === 'read' ? reader.read(1003) : gathered(reader.stream(1003));
    await expect(wanted).rejects.toMatchObject({
      code: 'firmware-truncated',
      message: 'a test, byte 5000: is truncated, 3 bytes are missing',
    });
  });

  test('peeks shorter at the end instead of failing', async () => {
    const reader = new ByteReader(inChunks(bytes.subarray(0, 5), [2]), 'test');
    expect(await reader.atEnd()).toBe(false);
    expect(await reader.peek(100)).toHaveLength(5);
    expect(await reader.read(5)).toHaveLength(5);
    expect(await reader.peek(100)).toHaveLength(0);
  });

  test('refuses to hold more in memory than its limit', async () => {
    const reader = new ByteReader(inChunks(bytes, [700]), 'test');
    await expect(reader.read(1e9)).rejects.toBeInstanceOf(RangeError);
  });

  test('closes its source, once', async () => {
    let closed = 0;
    const source: AsyncIterable<Uint8Array> = {
      [Symbol.asyncIterator]: () => ({
        next: async () => ({ done: false, value: bytes }),
        return: async () => ({ done: true, value: (closed += 1) }),
      }),
    };
    const reader = new ByteReader(source, 'test');
    await reader.read(1);
    await reader.close();
    await reader.close();
    expect(closed).toBe(1);
    expect(await reader.atEnd()).toBe(true);
  });

  test('passes on what the source throws', async () => {
    const failure = new Error('line cut');
    async function* source(): AsyncGenerator<Uint8Array, void, undefined> {
      yield bytes;
      throw failure;
    }
    const reader = new ByteReader(source(), 'test');
    await expect(gathered(reader.rest())).rejects.toBe(failure);
  });
});
