import assert from 'node:assert/strict';

import { abortable } from '../../system/abortable.ts';
import { checksumOf } from '../../system/checksum.ts';
import type { PayloadWriter, WrittenPayload, WrittenPrefix } from '../../update/ports.ts';
import { SlotError } from '../errors.ts';
import type { Hasher } from '../hasher.ts';
import type { SlotMedium } from '../slot-medium.ts';
import type { Block, BlockPool } from './block-pool.ts';
import { alignDown } from './block-pool.ts';
import { readInOrder } from './read-in-order.ts';
import { UnchangedBlocks } from './unchanged.ts';

export interface WriterDeps {
  /** The name of the slot in messages. */
  readonly where: string;
  readonly capacityBytes: number;
  readonly medium: SlotMedium;
  readonly hasher: Hasher;
  readonly pool: BlockPool;
  /** Closes medium and hasher. */
  readonly resources: AsyncDisposable;
  /** Invariant 6: ends every wait of the writer. */
  readonly signal: AbortSignal;
}

/**
 * Writes an image to a slot. The calling thread only copies bytes into a block and computes their checksum. At the same
 * time another thread hashes blocks, and the operating system compares and writes several of them.
 */
export class BlockWriter implements PayloadWriter {
  readonly #deps: WriterDeps;
  readonly #unchanged: UnchangedBlocks;
  /** The checksum of every block before the current one, to compare with what is read back from the medium. */
  readonly #checksums: number[] = [];
  #inFlight = 0;
  #current: Block | undefined;
  /** The bytes in the current block, and how many of them were passed to hasher and medium. */
  #filled = 0;
  #flushed = 0;
  #sizeBytes = 0;
  #unchangedBytes = 0;
  #failure: { readonly error: unknown } | undefined;
  #progress = Promise.withResolvers<void>();
  #ended = false;

  constructor(deps: WriterDeps) {
    this.#deps = deps;
    this.#unchanged = new UnchangedBlocks(deps.medium);
  }

  /** Continues after the content that the slot already holds. Throws `checkpoint-stale` if it holds something else. */
  async resume(prefix: WrittenPrefix): Promise<void> {
    assert(this.#sizeBytes === 0 && this.#current === undefined, 'resumed after it was written to');
    const { medium, hasher, pool, signal } = this.#deps;
    const wholeBytes = prefix.sizeBytes - (prefix.sizeBytes % pool.blockBytes);
    const visit = async (bytes: Buffer): Promise<void> => {
      this.#checksums.push(checksumOf(bytes));
      await abortable(hasher.update(bytes), signal);
    };
    await readInOrder({ medium, pool }, wholeBytes, visit, signal);
    const rest = prefix.sizeBytes - wholeBytes;
    if (rest > 0) {
      this.#current = pool.take();
      assert(this.#current !== undefined);
      await abortable(medium.read(this.#current.bytes, rest, wholeBytes), signal);
      await abortable(hasher.update(this.#current.bytes.subarray(0, rest)), signal);
      this.#filled = rest;
      this.#flushed = rest;
    }
    this.#sizeBytes = prefix.sizeBytes;
    if ((await abortable(hasher.digest(), signal)) !== prefix.digest) {
      throw new SlotError('checkpoint-stale', this.#deps.where, 'does not hold the data that the checkpoint describes');
    }
  }

  write(chunk: Uint8Array): Promise<void> | undefined {
    this.#throwIfBroken();
    const { capacityBytes, pool, where } = this.#deps;
    if (this.#sizeBytes + chunk.byteLength > capacityBytes) {
      throw new SlotError('slot-too-small', where, `the image is larger than its ${capacityBytes} bytes`);
    }
    const source = Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    const taken = this.#take(source);
    if (taken < source.byteLength) return this.#takeLater(Buffer.from(source.subarray(taken)));
    return pool.hasFree ? undefined : this.#until(() => pool.hasFree, this.#deps.signal);
  }

  async checkpoint(signal: AbortSignal): Promise<WrittenPrefix> {
    const either = AbortSignal.any([signal, this.#deps.signal]);
    this.#throwIfBroken();
    this.#flush('keep');
    return this.#makeDurable(either);
  }

  async finish(signal: AbortSignal): Promise<WrittenPayload> {
    const either = AbortSignal.any([signal, this.#deps.signal]);
    this.#throwIfBroken();
    this.#flush('seal');
    const written = await this.#makeDurable(either);
    await this.#readBack(either);
    this.#ended = true;
    return { ...written, unchangedBytes: this.#unchangedBytes };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ended = true;
    await this.#deps.resources[Symbol.asyncDispose]();
  }

  /** Copies into blocks while there are free ones. Returns the number of bytes taken. */
  #take(source: Buffer): number {
    const { pool } = this.#deps;
    let taken = 0;
    while (taken < source.byteLength) {
      this.#current ??= pool.take();
      if (this.#current === undefined) break;
      const count = copyInto(this.#current.bytes, this.#filled, source.subarray(taken));
      taken += count;
      this.#filled += count;
      this.#sizeBytes += count;
      if (this.#filled === pool.blockBytes) this.#flush('seal');
    }
    return taken;
  }

  async #takeLater(rest: Buffer): Promise<void> {
    const { pool, signal } = this.#deps;
    for (let taken = 0; taken < rest.byteLength; taken += this.#take(rest.subarray(taken))) {
      await this.#until(() => pool.hasFree, signal);
    }
    await this.#until(() => pool.hasFree, signal);
  }

  /** Passes what is new in the current block to hasher and medium. A sealed block then returns to the pool. */
  #flush(how: 'keep' | 'seal'): void {
    const block = this.#current;
    if (block === undefined) return;
    const [from, to] = [this.#flushed, this.#filled];
    const blockPosition = this.#sizeBytes - to;
    this.#flushed = to;
    if (how === 'seal') {
      this.#checksums.push(checksumOf(block.bytes.subarray(0, to)));
      this.#current = undefined;
      this.#filled = 0;
      this.#flushed = 0;
    }
    const hashed = this.#deps.hasher.update(block.bytes.subarray(from, to));
    const stored = this.#store(block, blockPosition, from, to);
    this.#inFlight += 1;
    void this.#settle([hashed, stored], how === 'seal' ? block : undefined);
  }

  /** Never rejects: the next call of the writer throws the failure. */
  async #settle(work: readonly Promise<void>[], toGiveBack: Block | undefined): Promise<void> {
    const failed = (await Promise.allSettled(work)).find((result) => result.status === 'rejected');
    if (failed !== undefined) this.#failure ??= { error: failed.reason };
    if (toGiveBack !== undefined) this.#deps.pool.giveBack(toGiveBack);
    this.#inFlight -= 1;
    this.#progress.resolve();
    this.#progress = Promise.withResolvers();
  }

  /** Stores a part of a block. A page that was written only in part is written again as a whole. */
  async #store(block: Block, blockPosition: number, from: number, to: number): Promise<void> {
    if (from === to) return;
    const start = alignDown(from);
    const bytes = block.bytes.subarray(start, to);
    if (await this.#unchanged.holds(bytes, block.scratch, blockPosition + start)) this.#unchangedBytes += to - from;
    else await this.#deps.medium.write(bytes, blockPosition + start);
  }

  async #makeDurable(signal: AbortSignal): Promise<WrittenPrefix> {
    await this.#until(() => this.#inFlight === 0, signal);
    await abortable(this.#deps.medium.sync(), signal);
    return { sizeBytes: this.#sizeBytes, digest: await abortable(this.#deps.hasher.digest(), signal) };
  }

  async #readBack(signal: AbortSignal): Promise<void> {
    const { medium, pool, where } = this.#deps;
    const compare = (bytes: Buffer, position: number): void => {
      if (checksumOf(bytes) === this.#checksums[position / pool.blockBytes]) return;
      const range = `bytes ${position} to ${position + bytes.byteLength - 1}`;
      throw new SlotError('readback-mismatch', where, `${range} do not read back as they were written`);
    };
    await readInOrder({ medium, pool }, this.#sizeBytes, compare, signal);
  }

  async #until(condition: () => boolean, signal: AbortSignal): Promise<void> {
    while (!condition()) {
      await abortable(this.#progress.promise, signal);
      this.#throwIfBroken();
    }
    this.#throwIfBroken();
  }

  #throwIfBroken(): void {
    this.#deps.signal.throwIfAborted();
    if (this.#failure !== undefined) throw this.#failure.error;
    assert(!this.#ended, 'a writer that has ended is used');
  }
}

/**
 * Copies as much as fits, and the last byte separately: Buffer.copy of a whole buffer uses TypedArray.set, which copies
 * shared memory word by word and takes five times as long.
 */
function copyInto(block: Buffer, at: number, source: Buffer): number {
  const count = Math.min(source.byteLength, block.byteLength - at);
  source.copy(block, at, 0, count - 1);
  source.copy(block, at + count - 1, count - 1, count);
  return count;
}
