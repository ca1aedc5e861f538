import { crc32 } from 'node:zlib';

/** One checksum is kept for each block of this size. */
const blockBytes = 1024 * 1024;

/**
 * Remembers a text by checksums of its blocks, to recognize it when it is read again. CRC-32 finds a changed text, but
 * not a forged one; the decoded firmware is verified with a trusted key anyway.
 */
export class SeenText {
  readonly #blocks: number[] = [];
  #running = 0;
  #sizeBytes = 0;

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  append(bytes: Uint8Array): void {
    for (const piece of atBlockBorders(bytes, this.#sizeBytes)) {
      this.#running = crc32(piece, this.#running);
      this.#sizeBytes += piece.byteLength;
      if (this.#sizeBytes % blockBytes !== 0) continue;
      this.#blocks.push(this.#running);
      this.#running = 0;
    }
  }

  /** Compares a second reading with the first one, up to where that got. */
  replay(): Replay {
    return new Replay(this.#blocks, this.#running, this.#sizeBytes);
  }
}

export class Replay {
  readonly #blocks: readonly number[];
  readonly #tail: number;
  readonly #sizeBytes: number;
  #running = 0;
  #position = 0;

  constructor(blocks: readonly number[], tail: number, sizeBytes: number) {
    this.#blocks = blocks;
    this.#tail = tail;
    this.#sizeBytes = sizeBytes;
  }

  /** The bytes that are still to be compared. Until this is 0 nothing is certain. */
  get remainingBytes(): number {
    return this.#sizeBytes - this.#position;
  }

  /**
   * Compares the next bytes, at most `remainingBytes`. Returns false as soon as a block, or the last part of one,
   * differs.
   */
  push(bytes: Uint8Array): boolean {
    for (const piece of atBlockBorders(bytes, this.#position)) {
      this.#running = crc32(piece, this.#running);
      this.#position += piece.byteLength;
      if (!this.#matches()) return false;
    }
    return true;
  }

  #matches(): boolean {
    if (this.#position % blockBytes === 0) {
      const expected = this.#blocks[this.#position / blockBytes - 1];
      const matches = this.#running === expected;
      this.#running = 0;
      return matches;
    }
    return this.#position !== this.#sizeBytes || this.#running === this.#tail;
  }
}

function* atBlockBorders(bytes: Uint8Array, position: number): Generator<Uint8Array> {
  for (let offset = 0; offset < bytes.byteLength;) {
    const room = blockBytes - ((position + offset) % blockBytes);
    const piece = bytes.subarray(offset, offset + room);
    yield piece;
    offset += piece.byteLength;
  }
}
