import { ChipModel } from './chip-model.ts';
import type { ChipOptions, Program } from './chip-model.ts';

/** `rjmp .` */
const avr = { eraseMs: 4, writeMs: 4, parked: Uint8Array.of(0xff, 0xcf) };

/**
 * Optiboot 4.4, after its source: no checksums, a wrong end of command leaves for the application. ATmegaBOOT answers the
 * same until then, with the major version 1.
 */
export class OptibootModel extends ChipModel {
  readonly #signature: readonly number[];
  readonly #major: number;

  constructor(options: ChipOptions, signature: readonly number[] = [0x1e, 0x95, 0x0f], major = 4) {
    super(options, { ...avr, timeoutMs: 1_000 });
    this.#signature = signature;
    this.#major = major;
  }

  #address = 0;

  protected override *bootloader(): Program {
    for (;;) if (yield* this.#command(yield)) this.say(0x10);
  }

  /** False: it left for the application. */
  *#command(byte: number): Generator<void, boolean, number> {
    switch (byte) {
      case 0x41:
        yield;
        return yield* this.#endOfCommand(this.#major);
      case 0x51:
        if (yield* this.#endOfCommand(0x10)) this.leave();
        return false;
      case 0x55: {
        const low = yield;
        this.#address = (low + (yield) * 256) * 2;
        return yield* this.#endOfCommand();
      }
      case 0x64:
        return yield* this.#programPage(this.#address % 0x10000);
      case 0x74:
        return yield* this.#readPage();
      case 0x75:
        return yield* this.#endOfCommand(...this.#signature);
      default:
        return yield* this.#endOfCommand();
    }
  }

  *#readPage(): Generator<void, boolean, number> {
    yield;
    const length = (yield) || 256;
    yield;
    const start = this.#address;
    this.#address += length;
    return yield* this.#endOfCommand(...Array.from({ length }, (_, index) => this.memory[start + index] ?? 0xff));
  }

  *#programPage(address: number): Generator<void, boolean, number> {
    yield;
    const length = (yield) || 256;
    yield;
    const page = address - (address % this.pageBytes);
    this.erase(page);
    const bytes: number[] = [];
    for (let index = 0; index < length; index += 1) bytes.push(yield);
    if (!(yield* this.#endOfCommand())) return false;
    const filled = Array.from({ length: this.pageBytes }, () => 0xff);
    for (const [index, byte] of bytes.entries()) filled[(address + index) % this.pageBytes] = byte;
    this.write(page, filled);
    return true;
  }

  *#endOfCommand(...answer: readonly number[]): Generator<void, boolean, number> {
    if ((yield) !== 0x20) {
      this.leave();
      return false;
    }
    this.say(0x14, ...answer);
    return true;
  }
}

/** The Wiring stk500v2 bootloader, after its source: erases pages in order, whatever the address. */
export class WiringModel extends ChipModel {
  /** Answers that are always the same, by command. */
  readonly #answers: ReadonlyMap<number, readonly number[]>;

  /** Without a high fuse byte, it lacks the command that reads it. */
  constructor(options: ChipOptions, highFuse?: number) {
    super(options, { ...avr, timeoutMs: 5_000 });
    this.#answers = new Map([
      [0x01, [0, 8, ...Buffer.from('AVRISP_2')]],
      [0x18, highFuse === undefined ? [0xc0] : [0, highFuse, 0]],
    ]);
  }

  #address = 0;
  #eraseAddress = 0;

  protected override *bootloader(): Program {
    this.#eraseAddress = 0;
    for (let expected = 0; ;) {
      const { body, sequence } = yield* this.#message(expected);
      expected = (sequence + 1) & 0xff;
      const leaves = body[0] === 0x11;
      this.#answer(sequence, [body[0] ?? 0, ...(leaves ? [0] : this.#obey(body))]);
      if (leaves) this.leave();
    }
  }

  #obey(body: readonly number[]): readonly number[] {
    const [name = 0, high = 0, low = 0] = body;
    const length = high * 256 + low;
    switch (name) {
      case 0x06:
        this.#address = (Buffer.from(body).readUInt32BE(1) * 2) % 2 ** 32;
        return [0];
      case 0x12:
        this.#eraseAddress = 0;
        return [0xc0];
      case 0x13:
        return this.#programPage(length, body.slice(10));
      case 0x14:
        this.#address += length;
        return [0, ...this.memory.subarray(this.#address - length, this.#address), 0];
      case 0x1b:
        return [0, [0x1e, 0x98, 0x01][body[4] ?? 2] ?? 1, 0];
      default:
        return this.#answers.get(name) ?? [0xc9];
    }
  }

  #programPage(length: number, bytes: readonly number[]): readonly number[] {
    if (this.#eraseAddress < this.memory.byteLength) this.erase(this.#eraseAddress);
    this.#eraseAddress += this.pageBytes;
    this.write(this.#address, bytes);
    this.#address += length;
    return [0];
  }

  *#message(expected: number): Generator<void, { body: number[]; sequence: number }, number> {
    for (;;) {
      if ((yield) !== 0x1b) continue;
      const sequence = yield;
      if (sequence !== 1 && sequence !== expected) continue;
      const high = yield;
      const low = yield;
      if ((yield) !== 0x0e) continue;
      const body: number[] = [];
      for (let index = 0; index < high * 256 + low; index += 1) body.push(yield);
      const sum = [0x1b, sequence, high, low, 0x0e, ...body].reduce((total, byte) => total ^ byte, 0);
      if ((yield) === sum) return { body, sequence };
    }
  }

  #answer(sequence: number, body: readonly number[]): void {
    const frame = [0x1b, sequence, body.length >> 8, body.length & 0xff, 0x0e, ...body];
    this.say(
      ...frame,
      frame.reduce((total, byte) => total ^ byte, 0),
    );
  }
}
