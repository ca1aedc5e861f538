import { openChecksum } from '../../system/checksum.ts';

/** A block ends behind the piece that fills it, or at an interruption. */
const BLOCK_BYTES = 1024 * 1024;

interface SeenBlock {
  readonly endOffset: number;
  readonly checksum: number;
}

/**
 * Remembers a text by checksums of its blocks, to recognize it when it is read again. A checksum finds a changed text; a
 * forged one is found by the key that must have signed the decoded firmware.
 */
export class BlockChecksums {
  readonly #blocks: SeenBlock[] = [];
  /** The checksum of the present block, to compare or new. */
  #checksum = openChecksum();
  /** The number of blocks that this reading has passed, and its bytes. */
  #passed = 0;
  #position = 0;
  #sizeBytes = 0;

  /** The bytes that were seen so far, by all readings. */
  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  /** True while this reading is within the bytes that were seen: until it has passed them, nothing is certain. */
  get isReplay(): boolean {
    return this.#passed < this.#blocks.length;
  }

  /** Begins another reading, at the beginning of the text or behind the bytes that were seen. */
  beginAt(place: 'start' | 'end'): void {
    if (!this.isReplay && this.#sizeBytes > this.#endOfBlocks) this.#closeBlock();
    this.#checksum = openChecksum();
    this.#passed = place === 'start' ? 0 : this.#blocks.length;
    this.#position = place === 'start' ? 0 : this.#sizeBytes;
  }

  /** Takes the next bytes of this reading. Returns the new ones of them, or undefined if they differ from the first reading. */
  push(bytes: Uint8Array): Uint8Array | undefined {
    let rest = bytes;
    for (let block = this.#blocks[this.#passed]; block !== undefined && rest.byteLength > 0;) {
      rest = this.#add(rest, block.endOffset - this.#position);
      if (this.#position < block.endOffset) return rest;
      if (this.#checksum.value() !== block.checksum) return undefined;
      this.#checksum = openChecksum();
      this.#passed += 1;
      block = this.#blocks[this.#passed];
    }
    if (rest.byteLength === 0) return rest;
    this.#add(rest, Infinity);
    this.#sizeBytes = this.#position;
    if (this.#sizeBytes - this.#endOfBlocks >= BLOCK_BYTES) this.#closeBlock();
    return rest;
  }

  /** Adds at most this number of bytes to the checksum. Returns the others. */
  #add(bytes: Uint8Array, mostBytes: number): Uint8Array {
    const piece = bytes.subarray(0, mostBytes);
    this.#checksum.update(piece);
    this.#position += piece.byteLength;
    return bytes.subarray(piece.byteLength);
  }

  get #endOfBlocks(): number {
    return this.#blocks.at(-1)?.endOffset ?? 0;
  }

  #closeBlock(): void {
    this.#blocks.push({ endOffset: this.#sizeBytes, checksum: this.#checksum.value() });
    this.#checksum = openChecksum();
    this.#passed = this.#blocks.length;
  }
}
