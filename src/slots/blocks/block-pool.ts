/** The block size and count that measured best. They take six MiB of memory, however large the image. */
export const defaultGeometry: BlockGeometry = { blockBytes: 1024 * 1024, blocks: 6 };

/** Address, length and position of an O_DIRECT access are multiples of this; it suits every medium in use. */
export const alignmentBytes = 4096;

/** Both are multiples of the alignment. */
export interface BlockGeometry {
  readonly blockBytes: number;
  readonly blocks: number;
}

/** Page-aligned memory that threads share, and a smaller buffer for reading from the medium. */
export interface Block {
  readonly bytes: Buffer;
  readonly scratch: Buffer;
}

const scratchFraction = 8;

/** A fixed number of blocks. No memory is allocated after the pool was made. */
export class BlockPool {
  readonly blockBytes: number;
  readonly blocks: readonly Block[];
  readonly #free: Block[];

  constructor(geometry: BlockGeometry = defaultGeometry) {
    const { blockBytes, blocks } = geometry;
    const scratchBytes = Math.max(alignmentBytes, alignDown(blockBytes / scratchFraction));
    const totalBytes = blocks * (blockBytes + scratchBytes);
    // V8 maps growable memory page by page, so that it begins at a page; other buffers begin 16 bytes behind one.
    const memory = new SharedArrayBuffer(totalBytes, { maxByteLength: totalBytes });
    this.blockBytes = blockBytes;
    this.blocks = Array.from({ length: blocks }, (_, index) => ({
      bytes: Buffer.from(memory, index * blockBytes, blockBytes),
      scratch: Buffer.from(memory, blocks * blockBytes + index * scratchBytes, scratchBytes),
    }));
    this.#free = [...this.blocks];
  }

  get hasFree(): boolean {
    return this.#free.length > 0;
  }

  take(): Block | undefined {
    return this.#free.pop();
  }

  giveBack(block: Block): void {
    this.#free.push(block);
  }
}

export function alignDown(bytes: number): number {
  return bytes - (bytes % alignmentBytes);
}

export function alignUp(bytes: number): number {
  return alignDown(bytes + alignmentBytes - 1);
}
