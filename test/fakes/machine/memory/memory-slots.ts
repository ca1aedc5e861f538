import { createHash } from 'node:crypto';

import { SlotError } from '../../../../src/slots/errors.ts';
import type {
  BaseReader,
  PayloadOpening,
  PayloadWriter,
  SlotName,
  SlotsTarget,
  WrittenPayload,
} from '../../../../src/update/ports.ts';
import type { Power } from '../power.ts';

const BLOCK_BYTES = 8;
const SLOT_BYTES = 128;

/** Bytes certainly on the medium, and bytes that a running system reads. They differ only in the dirty blocks. */
interface Partition {
  readonly durable: Buffer;
  readonly current: Buffer;
  readonly dirty: Set<number>;
}

/**
 * Two partitions in memory of a fixed size: previous data stays behind a shorter image. After a power loss, each
 * unflushed block is old, new or torn at any byte, independently of the others.
 */
export class MemorySlots implements SlotsTarget {
  readonly kind = 'slots';
  readonly name: string;
  readonly #power: Power;
  readonly #random: () => number;
  readonly #slots: Readonly<Record<SlotName, Partition>>;
  /** Refuses to write into this one. */
  booted: SlotName = 'A';
  /** Asked before each write. */
  trouble: () => boolean = () => false;

  constructor(name: string, content: Readonly<Record<SlotName, string>>, power: Power, random: () => number) {
    this.name = name;
    this.#power = power;
    this.#random = random;
    this.#slots = { A: partition(content.A), B: partition(content.B) };
  }

  /** Without the zeros at the end of the partition. */
  content(slot: SlotName): string {
    return this.#slots[slot].current.toString('latin1').replace(/\0+$/, '');
  }

  /** True if the medium certainly holds this image, even after a power loss now. */
  holds(slot: SlotName, image: Uint8Array): boolean {
    const { durable, dirty } = this.#slots[slot];
    if (!durable.subarray(0, image.length).equals(image)) return false;
    return [...dirty].every((block) => block * BLOCK_BYTES >= image.length);
  }

  forget(): void {
    for (const { durable, current, dirty } of [this.#slots.A, this.#slots.B]) {
      for (const block of dirty) {
        const from = block * BLOCK_BYTES;
        current.copy(durable, from, from, from + this.#survivingBytes());
        durable.copy(current, from, from, from + BLOCK_BYTES);
      }
      dirty.clear();
    }
  }

  /** An orderly shutdown, or a flush. */
  sync(slot: SlotName): void {
    const { durable, current, dirty } = this.#slots[slot];
    current.copy(durable);
    dirty.clear();
  }

  /** A bit of the medium flips. */
  rot(slot: SlotName, at: number): void {
    const { durable, current } = this.#slots[slot];
    for (const bytes of [durable, current]) bytes[at] = (bytes[at] ?? 0) ^ 1;
  }

  async openSlot(slot: SlotName, opening: PayloadOpening): Promise<PayloadWriter> {
    this.#power.need(`open slot ${slot}`);
    if (slot === this.booted) throw new SlotError('slot-booted', `slot ${slot}`, 'is the running system');
    return new MemoryWriter(this, slot, opening);
  }

  async digestOf(slot: SlotName, sizeBytes: number): Promise<string> {
    return sha256(this.read(slot, sizeBytes));
  }

  async openBase(slot: SlotName): Promise<BaseReader> {
    return {
      read: async (position, sizeBytes) => this.read(slot, position + sizeBytes).subarray(position),
      [Symbol.asyncDispose]: async () => {},
    };
  }

  /** The image's first word decides. */
  async isReadOnly(slot: SlotName): Promise<boolean> {
    return this.content(slot).startsWith('read-only');
  }

  async copyInto(writer: PayloadWriter, slot: SlotName, sizeBytes: number): Promise<void> {
    await writer.write(this.read(slot, sizeBytes));
  }

  read(slot: SlotName, sizeBytes: number): Buffer {
    this.#power.need(`read slot ${slot}`);
    return Buffer.from(this.#slots[slot].current.subarray(0, sizeBytes));
  }

  write(slot: SlotName, block: number, bytes: Uint8Array): void {
    this.#power.need(`write slot ${slot}`);
    if (this.trouble()) throw new SlotError('slot-io-error', `slot ${slot}`, 'EIO');
    const { current, dirty } = this.#slots[slot];
    current.set(bytes, block * BLOCK_BYTES);
    dirty.add(block);
    this.#power.step(`slot ${slot}: write block ${block}`);
  }

  flush(slot: SlotName): void {
    this.#power.step(`slot ${slot}: flush`);
    this.sync(slot);
  }

  #survivingBytes(): number {
    const chance = this.#random();
    if (chance < 0.35) return BLOCK_BYTES;
    return chance < 0.7 ? 0 : Math.floor(this.#random() * BLOCK_BYTES);
  }
}

class MemoryWriter implements PayloadWriter {
  readonly #slots: MemorySlots;
  readonly #slot: SlotName;
  #all: Buffer = Buffer.alloc(0);
  #writtenBlocks = 0;

  constructor(slots: MemorySlots, slot: SlotName, { resumeAt }: PayloadOpening) {
    this.#slots = slots;
    this.#slot = slot;
    if (resumeAt === undefined) return;
    this.#all = slots.read(slot, resumeAt.sizeBytes);
    if (sha256(this.#all) !== resumeAt.digest) throw new SlotError('checkpoint-stale', `slot ${slot}`, 'has changed');
    this.#writtenBlocks = Math.floor(this.#all.length / BLOCK_BYTES);
  }

  write(chunk: Uint8Array): undefined {
    this.#all = Buffer.concat([this.#all, chunk]);
    if (this.#all.length > SLOT_BYTES)
      throw new SlotError('slot-too-small', `slot ${this.#slot}`, `${SLOT_BYTES} bytes`);
    this.#writeBlocks(Math.floor(this.#all.length / BLOCK_BYTES));
    return undefined;
  }

  async checkpoint(): Promise<{ readonly sizeBytes: number; readonly digest: string }> {
    const whole = this.#writtenBlocks;
    this.#writeBlocks(Math.ceil(this.#all.length / BLOCK_BYTES));
    this.#writtenBlocks = whole;
    this.#slots.flush(this.#slot);
    return { sizeBytes: this.#all.length, digest: sha256(this.#all) };
  }

  async finish(): Promise<WrittenPayload> {
    const written = await this.checkpoint();
    const found = await this.#slots.digestOf(this.#slot, written.sizeBytes);
    if (found !== written.digest) throw new SlotError('readback-mismatch', `slot ${this.#slot}`, 'differs');
    return { ...written, unchangedBytes: 0 };
  }

  async [Symbol.asyncDispose](): Promise<void> {}

  #writeBlocks(end: number): void {
    for (; this.#writtenBlocks < end; this.#writtenBlocks += 1) {
      const from = this.#writtenBlocks * BLOCK_BYTES;
      this.#slots.write(this.#slot, this.#writtenBlocks, this.#all.subarray(from, from + BLOCK_BYTES));
    }
  }
}

function partition(content: string): Partition {
  const bytes = Buffer.alloc(SLOT_BYTES);
  bytes.write(content, 'latin1');
  return { durable: bytes, current: Buffer.from(bytes), dirty: new Set() };
}

export function sha256(bytes: Uint8Array): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
}
