import { createHash, randomBytes } from 'node:crypto';

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { decodeWindow, encodeWindow, MAGIC, RECORD_BYTES } from '../../../../src/firmware/delta/container.ts';
import type { DeltaWindow } from '../../../../src/firmware/delta/container.ts';
import { claimsOf } from '../../../../src/firmware/delta/encode.ts';
import { rebuild } from '../../../../src/firmware/delta/rebuild.ts';
import { AgentError } from '../../../../src/system/errors.ts';
import { howMuch } from '../../../full.ts';
import { inChunks } from '../chunks.ts';
import { deltaOf, MemoryBase } from './delta-bench.ts';

const never = new AbortController().signal;

interface Rebuilding {
  /** The running image. Default: the base of the delta. */
  readonly found?: Buffer;
  /** Digest of the file. Default: its own. */
  readonly digest?: string;
  readonly chunkBytes?: number;
}

/** Returns the result of any input. */
async function rebuilt(file: Buffer, base: Buffer, result: Buffer, given: Rebuilding = {}): Promise<Buffer> {
  const digest = given.digest ?? `sha256:${createHash('sha256').update(file).digest('hex')}`;
  const reader = new MemoryBase(given.found ?? base);
  const promise = claimsOf(base, result);
  const parts: Buffer[] = [];
  const content = inChunks(file, [given.chunkBytes ?? 1000]);
  for await (const part of rebuild(content, { name: 'root.delta', digest, promise }, reader, never)) {
    parts.push(Buffer.from(part));
  }
  return Buffer.concat(parts);
}

/** An image and its successor: parts that change, grow, disappear or move. */
const images = fc
  .record({
    base: fc.uint8Array({ minLength: 1, maxLength: 60_000 }),
    repeats: fc.integer({ min: 1, max: 4 }),
    edits: fc.array(
      fc.record({
        at: fc.nat(240_000),
        removed: fc.nat(9_000),
        added: fc.uint8Array({ maxLength: 9_000 }),
      }),
      { maxLength: 5 },
    ),
  })
  .map(({ base: seed, repeats, edits }) => {
    const base = Buffer.concat(Array.from({ length: repeats }, (_, index) => Buffer.concat([seed, Buffer.of(index)])));
    let result: Buffer = base;
    for (const { at, removed, added } of edits) {
      const from = at % (result.length + 1);
      result = Buffer.concat([result.subarray(0, from), added, result.subarray(from + removed)]);
    }
    return { base, result: result.length === 0 ? Buffer.of(7) : result };
  });

/** Images whose sizes are not multiples of pages and windows. */
function pair(scale = 5): { readonly base: Buffer; readonly result: Buffer } {
  const base = randomBytes(60_000 * scale + 1);
  const cut = 20_000 * scale;
  const result = Buffer.concat([base.subarray(0, cut), randomBytes(1_000 * scale), base.subarray(cut, 58_000 * scale)]);
  return { base, result };
}

describe('a delta', () => {
  test('rebuilds any image from any other', async () => {
    await fc.assert(
      fc.asyncProperty(images, fc.integer({ min: 1, max: 9_000 }), async ({ base, result }, chunkBytes) => {
        const file = await deltaOf(base, result, 16_384);
        expect((await rebuilt(file, base, result, { chunkBytes })).equals(result)).toBe(true);
      }),
      { numRuns: howMuch(60, 25) },
    );
  });

  test('is short where most of the image stays, also where it moves by whole blocks', async () => {
    const base = randomBytes(8 * 1024 * 1024);
    const moved = Buffer.concat([Buffer.alloc(5 * 1024 * 1024), base]);
    const file = await deltaOf(base, moved);
    expect(file.length).toBeLessThan(10_000);
    expect((await rebuilt(file, base, moved, { chunkBytes: 65_536 })).equals(moved)).toBe(true);
  });

  test('is refused where a part of the base is another one, before anything is made of it', async () => {
    const { base, result } = pair();
    const found = Buffer.from(base);
    found[3] = (found[3] ?? 0) ^ 1;
    await expect(rebuilt(await deltaOf(base, result), base, result, { found })).rejects.toMatchObject({
      code: 'delta-base-mismatch',
      exit: 'refused',
    });
  });

  test('with one changed byte is rejected, or rebuilds the same', async () => {
    const { base, result } = pair(1);
    const file = await deltaOf(base, result, 13_000);
    const digest = `sha256:${createHash('sha256').update(file).digest('hex')}`;
    await fc.assert(
      fc.asyncProperty(fc.nat(file.length - 1), fc.integer({ min: 1, max: 255 }), async (at, change) => {
        const damaged = Buffer.from(file);
        damaged[at] = (damaged[at] ?? 0) ^ change;
        const error: unknown = await rebuilt(damaged, base, result, { digest }).then(
          () => undefined,
          (reason: unknown) => reason,
        );
        expect(error).toBeInstanceOf(AgentError);
        expect(['delta-malformed', 'delta-base-mismatch', 'digest-mismatch', 'firmware-truncated']).toContain(
          error instanceof AgentError ? error.code : '',
        );
      }),
      { numRuns: howMuch(200, 80) },
    );
  });

  test('refuses a truncated delta, and one followed by other data', async () => {
    const { base, result } = pair();
    const file = await deltaOf(base, result);
    await expect(rebuilt(file.subarray(0, -1), base, result)).rejects.toMatchObject({ code: 'firmware-truncated' });
    const longer = Buffer.concat([file, Buffer.of(0)]);
    await expect(rebuilt(longer, base, result)).rejects.toMatchObject({ code: 'delta-malformed' });
    await expect(rebuilt(Buffer.from('x'), base, result)).rejects.toMatchObject({ code: 'delta-malformed' });
  });

  test('is not what the manifest promises: it is refused at its end', async () => {
    const { base, result } = pair();
    const digest = `sha256:${'0'.repeat(64)}`;
    const file = await deltaOf(base, result);
    await expect(rebuilt(file, base, result, { digest })).rejects.toMatchObject({ code: 'digest-mismatch' });
  });

  test('whose frame is larger than its window is rejected, and no more of it is decompressed', async () => {
    const base = Buffer.alloc(100_000, 1);
    const file = await deltaOf(base, randomBytes(50_000));
    file.writeUInt32LE(49_000, MAGIC.length + 4);
    const wanted = Buffer.alloc(49_000);
    await expect(rebuilt(file, base, wanted)).rejects.toThrow('cannot be unpacked');
  });

  test('stops reading the base after an abort', async () => {
    const { base, result } = pair();
    const file = await deltaOf(base, result);
    const reader = new MemoryBase(base);
    const promise = claimsOf(base, result);
    const reason = new Error('stop');
    const content = inChunks(file, [1000]);
    const stopped = rebuild(content, { name: 'root.delta', digest: '', promise }, reader, AbortSignal.abort(reason));
    await expect(stopped.next()).rejects.toBe(reason);
    expect(reader.readBytes).toBe(0);
  });
});

describe('a window of a delta', () => {
  const copy = { kind: 'copy', resultBytes: 8192, baseOffset: 4096, baseBytes: 8192, baseChecksum: 5, frameBytes: 0 };
  const bounds = { leftBytes: 100_000, baseSizeBytes: 100_000 };
  const read = (window: object): DeltaWindow =>
    decodeWindow(encodeWindow({ ...copy, ...window } as DeltaWindow), bounds);

  test('reads back as it was written, far behind 4 GiB, too', () => {
    const far = { ...copy, baseOffset: 9_000_000_000 } as DeltaWindow;
    const bytes = encodeWindow(far);
    expect(bytes.length).toBe(RECORD_BYTES);
    expect(decodeWindow(bytes, { ...bounds, baseSizeBytes: 10_000_000_000 })).toEqual(far);
  });

  test.each([
    ['longer than what is left of the result', { resultBytes: 100_001, baseBytes: 100_001, baseOffset: 0 }],
    ['longer than any may be', { kind: 'frame', resultBytes: 3_000_000, frameBytes: 1 }],
    ['so short that there would be too many', { resultBytes: 4095, baseBytes: 4095 }],
    ['of nothing', { resultBytes: 0, baseBytes: 0 }],
    ['from behind the end of the base', { baseOffset: 95_000 }],
    ['from the end of all numbers', { baseOffset: 2 ** 60 }],
    ['a copy of something else than its length', { baseBytes: 4096 }],
    ['a copy with a frame', { frameBytes: 1 }],
    ['a frame of nothing', { kind: 'frame', frameBytes: 0 }],
    ['a frame that is longer than any', { kind: 'frame', frameBytes: 3_000_000 }],
  ])('is refused: %s', (_, window) => {
    const wide = { leftBytes: 10_000_000, baseSizeBytes: 100_000 };
    const isOfAnySize = 'resultBytes' in window && window.resultBytes === 3_000_000;
    const refuse = () =>
      isOfAnySize ? decodeWindow(encodeWindow({ ...copy, ...window } as DeltaWindow), wide) : read(window);
    expect(refuse).toThrow(expect.objectContaining({ code: 'delta-malformed' }));
  });

  test('of more of the base than is ever read at a time is refused', () => {
    const window = { ...copy, kind: 'frame', baseBytes: 5_000_000, frameBytes: 9 } as DeltaWindow;
    const wide = { leftBytes: 10_000_000, baseSizeBytes: 10_000_000 };
    expect(() => decodeWindow(encodeWindow(window), wide)).toThrow(/5000000 bytes of the base/);
  });

  test('of an unknown kind is rejected', () => {
    const bytes = encodeWindow(copy as DeltaWindow);
    bytes[0] = 3;
    expect(() => decodeWindow(bytes, bounds)).toThrow(/kind 3/);
  });
});
