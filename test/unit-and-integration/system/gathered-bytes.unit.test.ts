import fc from 'fast-check';
import { expect, test } from 'vitest';

import { GatheredBytes } from '../../../src/system/gathered-bytes.ts';

test('holds the added pieces in order, and earlier views keep their content', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 40 })), (pieces) => {
      const gathered = new GatheredBytes();
      const views = pieces.map((piece) => {
        gathered.add(piece);
        return gathered.bytes;
      });
      const whole = Buffer.concat(pieces);
      expect(Buffer.compare(gathered.bytes, whole)).toBe(0);
      expect(gathered.sizeBytes).toBe(whole.byteLength);
      for (const view of views) expect(Buffer.compare(view, whole.subarray(0, view.byteLength))).toBe(0);
    }),
  );
});

// Regression: each piece kept a buffer of its own, so that 31 slow clients ended the daemon for lack of memory.
test('takes at most twice the memory of its content, however small the pieces are', () => {
  const gathered = new GatheredBytes();
  for (let index = 0; index < 50_000; index += 1) gathered.add(Uint8Array.of(index));
  expect(gathered.bytes.buffer.byteLength).toBeLessThanOrEqual(100_000);
});
