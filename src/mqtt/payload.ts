/**
 * A message's content as it was received: blocks in their order. Places are counted in bytes from the beginning of the
 * content.
 */
export class Payload {
  readonly byteLength: number;
  readonly #blocks: Uint8Array[];

  constructor(blocks: readonly Uint8Array[]) {
    this.#blocks = [...blocks];
    this.byteLength = blocks.reduce((sum, block) => sum + block.byteLength, 0);
  }

  get blocks(): readonly Uint8Array[] {
    return this.#blocks;
  }

  /** The bytes of a range in one piece. For small ranges. */
  join(start: number, end: number): Buffer {
    const pieces: Uint8Array[] = [];
    let offset = 0;
    for (const block of this.#blocks) {
      if (offset >= end) break;
      pieces.push(within(block, offset, start, end));
      offset += block.byteLength;
    }
    return Buffer.concat(pieces);
  }

  /**
   * The bytes of a range. This works only once: the memory of each block is given back when the next one is asked for.
   */
  *consume(start: number, end: number): Generator<Uint8Array, void, undefined> {
    let offset = 0;
    for (let block = this.#blocks.shift(); block !== undefined; block = this.#blocks.shift()) {
      const { byteLength } = block;
      const piece = within(block, offset, start, end);
      if (piece.byteLength > 0) yield piece;
      free(block);
      offset += byteLength;
    }
  }

  /** Gives all memory back. */
  release(): void {
    for (const block of this.#blocks.splice(0)) free(block);
  }
}

/** Frees the memory at once, before the next garbage collection; memory that the block shares with others stays. */
export function free(block: Uint8Array): void {
  const { buffer, byteLength } = block;
  if (buffer instanceof ArrayBuffer && byteLength > 0 && buffer.byteLength === byteLength) buffer.transfer(0);
}

/** The part of a block, which begins at `offset`, that belongs to the range. */
function within(block: Uint8Array, offset: number, start: number, end: number): Uint8Array {
  return block.subarray(Math.max(start - offset, 0), Math.max(end - offset, 0));
}
