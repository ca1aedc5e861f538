import type fc from 'fast-check';

/** Yields the bytes in chunks of these sizes, repeated as needed; each chunk is overwritten at the next request. */
export async function* inChunks(
  bytes: Uint8Array,
  sizes: readonly number[],
): AsyncGenerator<Uint8Array, void, undefined> {
  let at = 0;
  for (let turn = 0; at < bytes.length; turn += 1) {
    const size = sizes[turn % sizes.length] ?? bytes.length;
    const chunk = Buffer.from(bytes.subarray(at, at + size));
    yield chunk;
    chunk.fill(0xee);
    at += size;
  }
}

/** Sizes for `inChunks`: at least one byte each time round. */
export function chunkSizes(fastCheck: typeof fc): fc.Arbitrary<number[]> {
  return fastCheck
    .array(fastCheck.nat({ max: 1500 }), { minLength: 1, maxLength: 8 })
    .filter((sizes) => sizes.some((size) => size > 0));
}

export async function gathered(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const chunk of chunks) parts.push(Uint8Array.from(chunk));
  return Buffer.concat(parts);
}
