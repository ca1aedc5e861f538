import { createHash } from 'node:crypto';

import fc from 'fast-check';

import { encodeWindow, MAGIC, MAX_BASE_BYTES, RECORD_BYTES } from '../../../../../src/firmware/delta/container.ts';
import type { DeltaWindow } from '../../../../../src/firmware/delta/container.ts';
import { claimsOf } from '../../../../../src/firmware/delta/encode.ts';
import { rebuild } from '../../../../../src/firmware/delta/rebuild.ts';
import { WindowOffsets } from '../../../../../src/firmware/delta/window-offsets.ts';
import { inChunks } from '../../../../unit-and-integration/firmware/chunks.ts';
import { deltaOf, MemoryBase } from '../../../../unit-and-integration/firmware/delta/delta-bench.ts';
import { hostile } from '../../mutation.ts';
import { openTarget, outcomeOf } from '../../target.ts';
import type { FuzzTarget } from '../../target.ts';

/** Nothing of it can be compressed; the same each time. */
function noise(sizeBytes: number): Buffer {
  return createHash('shake256', { outputLength: sizeBytes }).update(String(sizeBytes)).digest();
}

const base = Buffer.concat([Buffer.alloc(40_000, 'a part that can be compressed '), noise(40_000)]);
const result = Buffer.concat([base.subarray(30_000, 70_000), noise(3_000), Buffer.alloc(20_000, 7)]);

const sizes = fc.oneof(fc.nat(70_000), fc.constantFrom(0, 1, 4096, 2 ** 20, 2 ** 21, 2 ** 31, 2 ** 32 - 1));
const places = fc.oneof(fc.nat(90_000), fc.constantFrom(2 ** 32, Number.MAX_SAFE_INTEGER));

/** The first record, or other bytes at its position. */
const record: fc.Arbitrary<DeltaWindow> = fc.record({
  kind: fc.constantFrom('copy' as const, 'frame' as const),
  resultBytes: sizes,
  baseOffset: places,
  baseBytes: sizes,
  baseChecksum: sizes,
  frameBytes: sizes,
});

/**
 * The file of a delta as an owner of the key could sign it: a result of the signed size, or an error. No more is read
 * or made.
 */
export const deltaFile: FuzzTarget = {
  name: 'delta',
  open: async () => {
    const valid = [await deltaOf(base, result, 16_384), await deltaOf(base, result), await deltaOf(base, base, 8_192)];
    const cases = fc.record({
      bytes: hostile(fc.constantFrom<Uint8Array>(...valid)),
      first: fc.option(record, { nil: undefined }),
      chunkBytes: fc.integer({ min: 1, max: 9_000 }),
      isSigned: fc.boolean(),
      resumed: fc.option(fc.record({ resultBytes: fc.nat(70_000), skipBytes: fc.nat(70_000) }), { nil: undefined }),
    });
    return openTarget(cases, async ({ bytes, first, chunkBytes, isSigned, resumed }) => {
      const file = first === undefined ? bytes : withFirst(bytes, first);
      const digest = isSigned ? `sha256:${createHash('sha256').update(file).digest('hex')}` : 'sha256:another';
      const reader = new BoundedBase(base);
      const watch = new WindowOffsets(0, () => true);
      const delta = { name: 'root.delta', digest, promise: claimsOf(base, result), watch, resumed };
      let madeBytes = 0;
      const outcome = await outcomeOf(async () => {
        const content = watch.through(inChunks(file, [chunkBytes]));
        for await (const chunk of rebuild(content, delta, reader, new AbortController().signal)) {
          madeBytes += chunk.byteLength;
          if (madeBytes > result.byteLength) throw new Error(`${madeBytes} bytes were made`);
        }
      });
      if ('error' in outcome) return;
      const wantedBytes = result.byteLength - (resumed?.resultBytes ?? 0);
      if (madeBytes !== Math.max(0, wantedBytes)) throw new Error(`ended well with ${madeBytes} bytes`);
      if (!isSigned && resumed === undefined) throw new Error('took a file that was not signed');
    });
  },
};

function withFirst(bytes: Uint8Array, first: DeltaWindow): Buffer {
  return Buffer.concat([MAGIC, encodeWindow(first), bytes.subarray(MAGIC.length + RECORD_BYTES)]);
}

class BoundedBase extends MemoryBase {
  override async read(position: number, sizeBytes: number): Promise<Uint8Array> {
    if (sizeBytes > MAX_BASE_BYTES || position + sizeBytes > base.byteLength)
      throw new Error(`${sizeBytes} bytes from ${position} on were asked for`);
    return super.read(position, sizeBytes);
  }
}
