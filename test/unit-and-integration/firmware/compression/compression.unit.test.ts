import { constants, gzipSync, zstdCompressSync } from 'node:zlib';

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { BLOCK_BYTES } from '../../../../src/firmware/block-source.ts';
import { decompress, detectCompression } from '../../../../src/firmware/compression/compression.ts';
import { chunkSizes, gathered, inChunks } from '../chunks.ts';
import { LinkLost, broken } from '../sources.ts';
import { failureOf } from '../staging.ts';

const never = new AbortController().signal;

/** Compressible in part, larger than two blocks when compressed. */
const content = Buffer.alloc(1_500_000);
for (let at = 0, state = 1; at < content.length; at += 1) {
  if (at % 3 === 0) state = (Math.imul(state, 1103515245) + 12345) >>> 0;
  content[at] = state >>> 16;
}

const kinds = { gzip: gzipSync, zstd: zstdCompressSync } as const;

function unpack(kind: keyof typeof kinds, bytes: Uint8Array, sizes: readonly number[] = [65_536]): Promise<Buffer> {
  return gathered(decompress(kind, inChunks(bytes, sizes), never));
}

test('the compression shows in the first bytes', () => {
  expect(detectCompression(gzipSync('x'))).toBe('gzip');
  expect(detectCompression(zstdCompressSync('x'))).toBe('zstd');
  expect(detectCompression(Buffer.from('5f2a4d1800000000', 'hex'))).toBe('zstd');
  expect(detectCompression(Buffer.from('\xfd7zXZ\0', 'latin1'))).toBe('xz');
  for (const other of ['', '\x1f', '\x1f\x8b', '\x1f\x8b\x07', '\xfd7zXZ', 'PK\x03\x04', 'version\0']) {
    expect(detectCompression(Buffer.from(other, 'latin1'))).toBe('none');
  }
});

describe.each(['gzip', 'zstd'] as const)('%s', (kind) => {
  const compress = kinds[kind];
  const packed = compress(content);
  const small = compress('small');

  test('gives the content back, whatever the chunks', async () => {
    expect(packed.length).toBeGreaterThan(2 * BLOCK_BYTES);
    for (const sizes of [[packed.length], [BLOCK_BYTES], [1000, 65_536], [BLOCK_BYTES + 1]]) {
      expect((await unpack(kind, packed, sizes)).equals(content)).toBe(true);
    }
    expect((await unpack(kind, small, [1])).toString()).toBe('small');
  });

  test('takes several members as one content, wherever the chunks and blocks end', async () => {
    await fc.assert(
      fc.asyncProperty(chunkSizes(fc), fc.nat({ max: 5 }), async (sizes, count) => {
        const packs = Array.from({ length: count + 1 }, () => small);
        expect((await unpack(kind, Buffer.concat(packs), sizes)).toString()).toBe('small'.repeat(count + 1));
      }),
      { numRuns: 25 },
    );
    const filled = compress(content.subarray(0, 1_200_000));
    const blockwise = Buffer.concat([filled, packed, small, packed]);
    const whole = Buffer.concat([content.subarray(0, 1_200_000), content, Buffer.from('small'), content]);
    expect((await unpack(kind, blockwise)).equals(whole)).toBe(true);
  });

  test('reports a truncated stream, wherever it ends', async () => {
    for (let end = 1; end < small.length; end += 1) {
      expect(await failureOf(unpack(kind, small.subarray(0, end)))).toMatchObject({ code: 'compression-truncated' });
    }
    const cut = await failureOf(unpack(kind, packed.subarray(0, packed.length - 2)));
    expect(cut).toMatchObject({ code: 'compression-truncated', remedy: 'retry' });
    expect(cut?.message).toBe(`${kind} stream, byte ${packed.length - 2}: is truncated`);
  });

  test('that is damaged anywhere never gives all of another content', async () => {
    const whole = compress('something that is worth a few bytes, and again something that is worth a few bytes', {
      params: { [constants.ZSTD_c_checksumFlag]: 1 },
    });
    const original = await unpack(kind, whole);
    for (let at = 0; at < whole.length; at += 1) {
      const damaged = Buffer.from(whole);
      damaged[at] = (damaged[at] ?? 0) ^ 0x10;
      let content: Buffer | undefined;
      const failure = await failureOf(unpack(kind, damaged).then((bytes) => (content = bytes)));
      expect(content?.equals(original) ?? failure?.code.startsWith('compression-')).toBe(true);
    }
  });

  test.each([
    ['text', Buffer.from('something else')],
    ['zeros', Buffer.alloc(3)],
    ['the beginning of another', small.subarray(0, 2)],
  ])('is not followed by %s', async (_, rest) => {
    for (const sizes of [[1], [small.length], [1000]]) {
      const failure = await failureOf(unpack(kind, Buffer.concat([small, rest]), sizes));
      expect(failure?.code).toMatch(/^compression-(trailing|truncated)$/);
    }
  });

  test('lets what its source throws through, as it is', async () => {
    const source = broken(inChunks(packed, [10_000]), packed.length / 2);
    await expect(gathered(decompress(kind, source, never))).rejects.toBeInstanceOf(LinkLost);
  });

  test('closes its source when the consumer stops', async () => {
    let isClosed = false;
    async function* watched(): AsyncGenerator<Uint8Array, void, undefined> {
      try {
        yield* inChunks(packed, [10_000]);
      } finally {
        isClosed = true;
      }
    }
    for await (const chunk of decompress(kind, watched(), never)) if (chunk.length > 0) break;
    await expect.poll(() => isClosed).toBe(true);
  });

  test('ends immediately with the reason of the signal, even while its source is silent', async () => {
    const controller = new AbortController();
    const reason = new Error('stop');
    async function* silent(): AsyncGenerator<Uint8Array, void, undefined> {
      yield packed.subarray(0, BLOCK_BYTES);
      controller.abort(reason);
      await new Promise(() => {});
    }
    await expect(gathered(decompress(kind, silent(), controller.signal))).rejects.toBe(reason);
    await expect(gathered(decompress(kind, inChunks(packed, [99]), controller.signal))).rejects.toBe(reason);
  });
});

describe('zstd', () => {
  test('may begin with a skippable frame and have others between', async () => {
    const skippable = Buffer.from('502a4d180400000001020304', 'hex');
    const frame = zstdCompressSync('frame');
    const text = await unpack('zstd', Buffer.concat([skippable, frame, skippable, skippable, frame]), [5]);
    expect(text.toString()).toBe('frameframe');
  });

  test('that would need too much memory is refused', async () => {
    const header = Buffer.from('28b52ffd0088', 'hex'); // RFC 8878, section 3.1.1.1.2: exponent 17, so 128 MiB
    const failure = await failureOf(unpack('zstd', Buffer.concat([header, content])));
    expect(failure).toMatchObject({ code: 'compression-memory', exit: 'protocol' });
  });
});
