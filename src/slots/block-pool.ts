/** Size of a block and how many there are: what measured best, and six MiB of memory whatever the image. */
export const defaultGeometry: BlockGeometry = { blockBytes: 1024 * 1024, blocks: 6 };

/** What an O_DIRECT address, length and position must be a multiple of, on every medium in use. */
export const alignmentBytes = 4096;

/** Both are multiples of the alignment. */
export interface BlockGeometry {
  readonly blockBytes: number;
  readonly blocks: number;
}

/** A piece of page-aligned memory that threads share, and a smaller one for looking at what the medium holds. */
export interface Block {
  readonly bytes: Buffer;
  readonly scratch: Buffer;
}

const scratchFraction = 8;

/** A fixed number of blocks. Nothing is allocated after it was made. */
export class BlockPool {
  readonly blockBytes: number;
  readonly blocks: readonly Block[];
  readonly #free: Block[];

  constructor(geometry: BlockGeometry = defaultGeometry) {
    const { blockBytes, blocks } = geometry;
    const scratchBytes = Math.max(alignmentBytes, alignDown(blockBytes / scratchFraction));
    const totalBytes = blocks * (blockBytes + scratchBytes);
    // V8 maps memory that may grow page by page, so it begins at a page; other buffers begin 16 bytes after one.
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
