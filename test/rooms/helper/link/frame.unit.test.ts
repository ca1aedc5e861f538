import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { HelperError } from '../../../../src/helper/errors.ts';
import { encodeHead, FrameDecoder, MAX_BODY_BYTES, MAX_HEAD_BYTES } from '../../../../src/helper/link/frame.ts';
import type { Frame } from '../../../../src/helper/link/frame.ts';

const frame = fc.record({ head: fc.jsonValue(), body: fc.uint8Array({ maxLength: 300 }) });

function* cut(bytes: Uint8Array, lengths: readonly number[]): Generator<Uint8Array> {
  let position = 0;
  for (let index = 0; position < bytes.byteLength; index += 1) {
    const next = position + 1 + (lengths[index % Math.max(1, lengths.length)] ?? 0);
    yield bytes.subarray(position, next);
    position = next;
  }
}

function endOf(decoder: FrameDecoder, pieces: readonly Uint8Array[]): string {
  try {
    for (const piece of pieces) for (const { head } of decoder.push(piece)) JSON.stringify(head);
    return 'read';
  } catch (error) {
    return error instanceof HelperError ? error.code : String(error);
  }
}

describe('frames', () => {
  test('are read as they were written, however the stream is cut', () => {
    fc.assert(
      fc.property(fc.array(frame, { maxLength: 8 }), fc.array(fc.nat(50)), (frames, lengths) => {
        const stream = Buffer.concat(frames.flatMap(({ head, body }) => [encodeHead(head, body.byteLength), body]));
        const decoder = new FrameDecoder();
        const found: Frame[] = [];
        for (const piece of cut(stream, lengths)) found.push(...decoder.push(piece));
        const plain = found.map(({ head, body = Buffer.alloc(0) }) => ({ head, body: Uint8Array.from(body) }));
        expect(plain).toEqual(
          frames.map(({ head, body }) => ({ head: JSON.parse(JSON.stringify(head)) as unknown, body })),
        );
        expect(decoder.isWithin).toBe(false);
      }),
    );
  });

  // Seen: of a board that gave one byte at a time behind a head of 4 MiB, each byte kept its head in memory.
  test('keep no head in memory by their body', () => {
    const head = Buffer.from(`{}${' '.repeat(100_000)}`);
    const prefix = Buffer.alloc(8);
    prefix.writeUInt32BE(head.byteLength, 0);
    prefix.writeUInt32BE(1, 4);
    const [found] = [...new FrameDecoder().push(Buffer.concat([prefix, head, Buffer.from('x')]))];
    expect(found?.body?.toString()).toBe('x');
    expect(found?.body?.buffer.byteLength).toBeLessThanOrEqual(2);
  });

  test('that are too long are refused at their first eight bytes, and noise is never held', () => {
    for (const [head, body] of [
      [MAX_HEAD_BYTES + 1, 0],
      [1, MAX_BODY_BYTES + 1],
      [0, 1],
    ] as const) {
      const prefix = Buffer.alloc(8);
      prefix.writeUInt32BE(head, 0);
      prefix.writeUInt32BE(body, 4);
      expect(() => [...new FrameDecoder().push(prefix)]).toThrow(/a message of/);
    }
    const six = encodeHead('1234');
    expect(() => [...new FrameDecoder(5).push(six.subarray(0, 8))]).toThrow('a message of 6 and 0 bytes');
    expect([...new FrameDecoder(6).push(six)]).toHaveLength(1);
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 64 })), (pieces) => {
        const decoder = new FrameDecoder();
        expect(['read', 'link-malformed']).toContain(endOf(decoder, pieces));
      }),
    );
  });
});
