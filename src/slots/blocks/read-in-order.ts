import { abortable } from '../../system/abortable.ts';
import type { BaseReader } from '../../update/ports.ts';
import { SlotError } from '../errors.ts';
import type { SlotMedium } from '../slot-medium.ts';
import { alignDown, alignmentBytes, alignUp } from './block-pool.ts';
import type { BlockPool } from './block-pool.ts';

/** `bytes` are valid until the returned promise resolves, or during the call if there is none. */
export type VisitBlock = (bytes: Buffer, position: number) => Promise<void> | void;

/**
 * Reads the first `sizeBytes` of a slot, and visits its blocks in order. As many reads run at a time as the pool has
 * blocks, all of which must be free.
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
    read.catch(() => {}); // it is awaited below, perhaps after another one has failed
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

/** The largest request, plus the pages at its beginning and end. */
const BUFFER_BYTES = 2 * 1024 * 1024 + 2 * alignmentBytes;

/** Reads any part of a slot, in any order, into a buffer that is used again. */
export class SlotReader implements BaseReader {
  readonly #place: { readonly where: string; readonly capacityBytes: number };
  readonly #medium: SlotMedium;
  readonly #buffer: Buffer;

  constructor(place: { readonly where: string; readonly capacityBytes: number }, medium: SlotMedium) {
    this.#place = place;
    this.#medium = medium;
    // V8 maps growable memory page by page, so that it begins at a page, as O_DIRECT demands.
    const memory = new SharedArrayBuffer(BUFFER_BYTES, { maxByteLength: BUFFER_BYTES });
    this.#buffer = Buffer.from(memory, 0, BUFFER_BYTES);
  }

  async read(position: number, sizeBytes: number, signal: AbortSignal): Promise<Uint8Array> {
    const { where, capacityBytes } = this.#place;
    if (position + sizeBytes > capacityBytes)
      throw new SlotError('slot-too-small', where, `holds ${capacityBytes} bytes, not ${position + sizeBytes}`);
    const start = alignDown(position);
    const lengthBytes = position - start + sizeBytes;
    if (alignUp(lengthBytes) > BUFFER_BYTES) throw new RangeError(`${sizeBytes} bytes of a slot in one read`);
    if (sizeBytes > 0) await abortable(this.#medium.read(this.#buffer, lengthBytes, start), signal);
    return this.#buffer.subarray(position - start, lengthBytes);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#medium[Symbol.asyncDispose]();
  }
}
