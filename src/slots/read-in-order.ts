import { abortable } from '../system/abortable.ts';
import type { BlockPool } from './block-pool.ts';
import type { SlotMedium } from './slot-medium.ts';

/** The bytes are valid until the returned promise resolves, or during the call if there is none. */
export type VisitBlock = (bytes: Buffer, position: number) => Promise<void> | void;

/**
 * Reads the first `sizeBytes` of a slot block by block, as many reads at a time as the pool has blocks, and visits the
 * blocks in order. The whole pool must be free.
 */
export async function readInOrder(
  source: { readonly medium: SlotMedium; readonly pool: BlockPool },
  sizeBytes: number,
  visit: VisitBlock,
  signal: AbortSignal,
): Promise<void> {
  const { blocks, blockBytes } = source.pool;
  const reads: Promise<void>[] = [];
  const start = (index: number): void => {
    const block = blockAt(blocks, index).bytes;
    const position = index * blockBytes;
    const read = source.medium.read(block, Math.min(blockBytes, sizeBytes - position), position);
    read.catch(() => {}); // is awaited below, perhaps after another one has failed
    reads.push(read);
  };
  const count = Math.ceil(sizeBytes / blockBytes);
  for (let index = 0; index < count; index += 1) {
    for (let ahead = index + reads.length; ahead < Math.min(count, index + blocks.length); ahead += 1) start(ahead);
    await abortable(reads.shift() ?? Promise.resolve(), signal);
    const position = index * blockBytes;
    await visit(blockAt(blocks, index).bytes.subarray(0, Math.min(blockBytes, sizeBytes - position)), position);
  }
}

function blockAt<T>(blocks: readonly T[], index: number): T {
  const block = blocks[index % blocks.length];
  if (block === undefined) throw new RangeError('a pool without blocks');
  return block;
}
