import { openChecksum } from '../../system/checksum.ts';

/** A block has this number of bytes, or fewer if it is the last one before an interruption. */
const blockBytes = 1024 * 1024;

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
  #running = openChecksum();
  #sizeBytes = 0;

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  append(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.byteLength;) {
      const piece = bytes.subarray(at, at + blockBytes - this.#openBytes);
      this.#running.update(piece);
      this.#sizeBytes += piece.byteLength;
      at += piece.byteLength;
      if (this.#openBytes === blockBytes) this.#closeBlock();
    }
  }

  /** Compares a second reading with the first one, up to where that got. */
  replay(): ReplayCheck {
    if (this.#openBytes > 0) this.#closeBlock();
    return new ReplayCheck([...this.#blocks]);
  }

  /** The bytes of the last block, which is not closed yet. */
  get #openBytes(): number {
    return this.#sizeBytes - endOf(this.#blocks);
  }

  #closeBlock(): void {
    this.#blocks.push({ endOffset: this.#sizeBytes, checksum: this.#running.value() });
    this.#running = openChecksum();
  }
}

export class ReplayCheck {
  readonly #blocks: readonly SeenBlock[];
  #next = 0;
  #running = openChecksum();
  #position = 0;

  constructor(blocks: readonly SeenBlock[]) {
    this.#blocks = blocks;
  }

  /** The bytes that are still to be compared. Until this is 0 nothing is certain. */
  get remainingBytes(): number {
    return endOf(this.#blocks) - this.#position;
  }

  /** Compares the next bytes, at most `remainingBytes`. Returns false as soon as a block differs. */
  push(bytes: Uint8Array): boolean {
    for (let at = 0; at < bytes.byteLength;) {
      const block = this.#blocks[this.#next];
      if (block === undefined) throw new RangeError('more than is to be compared');
      const piece = bytes.subarray(at, at + block.endOffset - this.#position);
      this.#running.update(piece);
      this.#position += piece.byteLength;
      at += piece.byteLength;
      if (this.#position === block.endOffset && !this.#closes(block)) return false;
    }
    return true;
  }

  #closes({ checksum }: SeenBlock): boolean {
    const matches = this.#running.value() === checksum;
    this.#running = openChecksum();
    this.#next += 1;
    return matches;
  }
}

function endOf(blocks: readonly SeenBlock[]): number {
  return blocks.at(-1)?.endOffset ?? 0;
}
