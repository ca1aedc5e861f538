/** Large enough that handing a block to another thread or process costs little compared with the work on it. */
export const BLOCK_BYTES = 256 * 1024;

/** Gathers chunks of any size into blocks. It is one block ahead of its user, and uses two buffers in turn. */
export class BlockSource {
  readonly #blocks: AsyncGenerator<Uint8Array, void, undefined>;
  #ahead: Promise<IteratorResult<Uint8Array, void>> | undefined;
  #returned: Uint8Array | undefined;
  #offset = 0;

  constructor(chunks: AsyncIterable<Uint8Array>) {
    this.#blocks = gather(chunks);
  }

  /** The number of bytes that were taken. */
  get offset(): number {
    return this.#offset;
  }

  /** The next block; undefined at the end. It is valid until the next call. Throws what the chunks throw. */
  async next(): Promise<Uint8Array | undefined> {
    const block = this.#returned ?? (await this.#nextGathered());
    this.#returned = undefined;
    this.#offset += block?.length ?? 0;
    return block;
  }

  /** Takes back the unused end of the last block; the next call of `next` returns it. */
  giveBack(rest: Uint8Array): void {
    this.#returned = rest;
    this.#offset -= rest.length;
  }

  async atEnd(): Promise<boolean> {
    this.#returned ??= await this.#nextGathered();
    return this.#returned === undefined;
  }

  /** Closes the chunks, immediately or as soon as the pending one has arrived. */
  close(): void {
    this.#blocks.return().catch(() => {}); // the caller no longer waits for the result
  }

  async #nextGathered(): Promise<Uint8Array | undefined> {
    const { done, value } = await (this.#ahead ?? this.#blocks.next());
    if (done === true) return undefined;
    this.#ahead = this.#blocks.next();
    this.#ahead.catch(() => {}); // the error is thrown when the block is requested
    return value;
  }
}

async function* gather(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  let [block, other] = [Buffer.allocUnsafe(BLOCK_BYTES), Buffer.allocUnsafe(BLOCK_BYTES)];
  let filled = 0;
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length;) {
      const part = chunk.subarray(at, at + BLOCK_BYTES - filled);
      block.set(part, filled);
      filled += part.length;
      at += part.length;
      if (filled < BLOCK_BYTES) continue;
      yield block;
      [block, other] = [other, block];
      filled = 0;
    }
  }
  if (filled > 0) yield block.subarray(0, filled);
}
