import type { BoardModel } from './board-model.ts';
import { ChipModel } from './chip-model.ts';
import type { ChipOptions, Program } from './chip-model.ts';

const ack = 0x79;
const nack = 0x1f;
const flashStart = 0x08000000;
const optionsAt = 0x1fff_7800 - flashStart;
/** The L47x/L48x. */
const twoBanks = 0x415;
const deliveredOptions = 0xff6f_f8aa;
const oldCommands = [0x00, 0x01, 0x02, 0x11, 0x21, 0x31];
const [erase, extendedErase] = [0x43, 0x44];
const getChecksum = 0xa1;
/** Time per byte for a bootloader that computes checksums. */
const checksumMsPerByte = 0.0005;

export interface Stm32ModelOptions extends ChipOptions {
  readonly productId: number;
  readonly readProtected?: boolean;
  /**
   * Supports Get Checksum, and acknowledges it this many times at the end: AN3155 can be read either way. 0: returns a
   * wrong sum.
   */
  readonly checksumAcks?: 0 | 1 | 2;
  /** Reads its UART late after each acknowledgement: what a host sends before it has that gets lost. */
  readonly isSlow?: boolean;
  /** FLASH_OPTR of a chip with two banks (RM0351), as it is delivered if not given; bit 20 is BFB2. */
  readonly optionBytes?: number;
  /** The content of the flash size register (RM0008, 30.1); the bootloader refuses addresses behind it. Default: blank. */
  readonly flashBytes?: number;
  readonly eraseMs?: number;
  /** BOOT0 follows RTS: a reset while RTS is asserted starts the application. Default: it is always high. */
  readonly boot0ByRts?: boolean;
  readonly refusesGo?: boolean;
  /** Has Erase instead of Extended Erase, as the STM32F1 (AN3155, 3.7): the number of a page is one byte. */
  readonly hasOldErase?: boolean;
}

/** The flash size registers (stlink, chip files) of F1, of F0 and F3, and of G0, G4 and L4. */
const sizeRegisters: ReadonlyMap<number, number> = new Map([
  ...[0x410, 0x412, 0x414, 0x418].map((id) => [id, 0x1fff_f7e0] as const),
  ...[0x440, 0x444, 0x448, 0x422].map((id) => [id, 0x1fff_f7cc] as const),
  ...[0x460, 0x466, 0x468, 0x435, 0x415].map((id) => [id, 0x1fff_75e0] as const),
]);
/** An F4 reads its register only within this block (stm32loader, `get_flash_size_and_uid_f4`). */
const sizeBlock = { address: 0x1fff_7a00, offset: 0x22 };

/** A byte that follows immediately is lost; a byte that answers the acknowledgement is not. */
const slowMs = 0.1;

/**
 * The system bootloader of an STM32 after ST AN3155, sections 2 and 3. Notes what a host must never do: another parity
 * than even, programming what is not erased, bytes while it erases.
 */
export class Stm32Model extends ChipModel {
  override readonly resetsWhenDtr = 'released';
  readonly #productId: number;
  readonly #optionBytes: Buffer;
  readonly #readProtected: boolean;
  readonly #checksumAcks: Stm32ModelOptions['checksumAcks'];
  readonly #commands: readonly number[];
  readonly #isSlow: boolean;
  readonly #flashKib: number;
  readonly #refusesGo: boolean;
  declare modem?: NonNullable<BoardModel['modem']>;
  checksums = 0;
  parity: 'none' | 'even' = 'even';

  constructor(options: Stm32ModelOptions) {
    const fifo = options.isSlow === true ? { fifoBytes: 0 } : {};
    super(options, {
      timeoutMs: Number.POSITIVE_INFINITY,
      eraseMs: options.eraseMs ?? 25,
      writeMs: 10,
      parked: 'erased',
      ...fifo,
    });
    this.#productId = options.productId;
    this.#optionBytes = Buffer.alloc(4);
    this.#optionBytes.writeUInt32LE(options.optionBytes ?? deliveredOptions);
    this.#readProtected = options.readProtected ?? false;
    this.#checksumAcks = options.checksumAcks;
    this.#isSlow = options.isSlow ?? false;
    this.#flashKib = (options.flashBytes ?? 0xffff * 1024) / 1024;
    this.#refusesGo = options.refusesGo ?? false;
    if (options.boot0ByRts === true) this.modem = this.#obeyLines();
    const optional = options.checksumAcks === undefined ? [] : [getChecksum];
    this.#commands = [...oldCommands, options.hasOldErase === true ? erase : extendedErase, ...optional];
  }

  #obeyLines(): NonNullable<BoardModel['modem']> {
    let wasDtr = true;
    return ({ dtr, rts }, atMs) => {
      const isReset = wasDtr && !dtr;
      wasDtr = dtr;
      if (isReset && rts) this.power(atMs);
      else if (isReset) this.reset(atMs);
      return [];
    };
  }

  protected override say(...bytes: readonly number[]): void {
    super.say(...bytes);
    if (this.#isSlow) this.work(slowMs);
  }

  protected override *bootloader(): Program {
    while ((yield) !== 0x7f) continue;
    if (this.parity !== 'even') this.violations.push('no even parity');
    this.say(ack);
    for (;;) {
      const code = yield;
      const known = ((yield) ^ code) === 0xff && this.#commands.includes(code);
      const answer = known && !(this.#readProtected && code >= 0x11) ? yield* this.#obey(code) : [nack];
      if (answer === 'left') return yield* silent();
      this.say(...answer);
    }
  }

  *#obey(code: number): Generator<void, readonly number[] | 'left', number> {
    switch (code) {
      case 0x00:
        return [ack, this.#commands.length, 0x31, ...this.#commands, ack];
      case 0x01:
        return [ack, 0x31, 0, 0, ack];
      case 0x02:
        return [ack, 1, this.#productId >> 8, this.#productId & 0xff, ack];
      case 0x11:
        return yield* this.#read();
      case 0x21:
        return yield* this.#go();
      case 0x31:
        return yield* this.#write();
      case getChecksum:
        return yield* this.#checksum();
      case erase:
        return yield* this.#eraseByByte();
      default:
        return yield* this.#erasePages();
    }
  }

  *#read(): Generator<void, readonly number[], number> {
    const address = yield* this.#address(true);
    if (address === undefined) return [nack];
    this.say(ack);
    const count = yield;
    if (((yield) ^ count) !== 0xff) return [nack];
    if (address === optionsAt) return [ack, ...this.#optionBytes.subarray(0, count + 1)];
    if (address === this.#sizeAddress) return this.#size(count + 1);
    return [ack, ...Array.from({ length: count + 1 }, (_, index) => this.memory[address + index] ?? 0xff)];
  }

  #size(bytes: number): readonly number[] {
    const isBlock = !sizeRegisters.has(this.#productId);
    if (bytes !== (isBlock ? 256 : 2)) return [nack];
    const block = Buffer.alloc(bytes, 0xff);
    block.writeUInt16LE(this.#flashKib, isBlock ? sizeBlock.offset : 0);
    return [ack, ...block];
  }

  get #sizeAddress(): number {
    return (sizeRegisters.get(this.#productId) ?? sizeBlock.address) - flashStart;
  }

  *#go(): Generator<void, readonly number[] | 'left', number> {
    if ((yield* this.#address()) === undefined || this.#refusesGo) return [nack];
    this.say(ack);
    this.leave();
    return 'left';
  }

  *#write(): Generator<void, readonly number[], number> {
    const address = yield* this.#address();
    if (address === undefined) return [nack];
    this.say(ack);
    const bytes = yield* this.#summed((yield) + 1);
    if (bytes === undefined) return [nack];
    for (const [index, byte] of bytes.entries()) {
      const there = this.memory[address + index] ?? 0xff;
      if (there !== 0xff && byte !== 0xff) this.violations.push(`programs ${address + index}, which is not erased`);
    }
    this.write(address, bytes);
    return [ack];
  }

  *#eraseByByte(): Generator<void, readonly number[], number> {
    this.say(ack);
    const count = yield;
    if (count === 0xff) {
      this.violations.push('erases the whole chip');
      return [nack];
    }
    const list = yield* this.#summed(count + 1, count);
    if (list === undefined) return [nack];
    for (const page of list) this.erase(page * this.pageBytes);
    this.finishErase();
    return [ack];
  }

  *#erasePages(): Generator<void, readonly number[], number> {
    this.say(ack);
    const high = yield;
    const count = high * 256 + (yield);
    if (count >= 0xfff0) {
      const sum = yield;
      if (count !== 0xffff || sum !== 0) return [nack];
      for (let page = 0; page < this.memory.byteLength / this.pageBytes; page += 1) this.erase(page * this.pageBytes);
      this.finishErase();
      return [ack];
    }
    if ((count + 1) * this.pageBytes > 1024 * 1024) return [nack];
    const list = yield* this.#summed((count + 1) * 2, high ^ (count & 0xff));
    if (list === undefined) return [nack];
    const pages = Buffer.from(list);
    for (let index = 0; index <= count; index += 1) this.erase(pages.readUInt16BE(index * 2) * this.pageBytes);
    this.finishErase();
    return [ack];
  }

  /** 3.13: address, count of words, polynomial and beginning. */
  *#checksum(): Generator<void, readonly number[], number> {
    const address = yield* this.#address();
    if (address === undefined) return [nack];
    const words: number[] = [];
    for (let word = 0; word < 3; word += 1) {
      this.say(ack);
      const bytes = yield* this.#summed(4, 0);
      if (bytes === undefined) return [nack];
      words.push(Buffer.from(bytes).readUInt32BE(0));
    }
    const [count = 0, polynomial = 0, beginning = 0] = words;
    if (count === 0 || address + count * 4 > this.memory.byteLength) return [nack];
    this.checksums += 1;
    const crc = Buffer.alloc(4);
    crc.writeUInt32BE(crcOf(this.memory.subarray(address, address + count * 4), polynomial, beginning));
    if (this.#checksumAcks === 0) crc.reverse();
    if (this.#checksumAcks !== 1) this.say(ack);
    this.work(count * 4 * checksumMsPerByte);
    return [ack, ...crc, crc.reduce((sum, byte) => sum ^ byte, 0)];
  }

  /** Offset in the flash memory, or of the option bytes where they may be read. */
  *#address(options = false): Generator<void, number | undefined, number> {
    this.say(ack);
    const bytes = yield* this.#summed(4, 0);
    if (bytes === undefined) return undefined;
    const address = Buffer.from(bytes).readUInt32BE(0) - flashStart;
    if (options && address === optionsAt && this.#productId === twoBanks) return address;
    if (options && address === this.#sizeAddress) return address;
    return address >= 0 && address < Math.min(this.#flashKib, 1024) * 1024 ? address : undefined;
  }

  /**
   * Receives this number of bytes and the XOR of them all. `before` is the initial sum, or the count before the bytes.
   */
  *#summed(count: number, before = count - 1): Generator<void, number[] | undefined, number> {
    const bytes: number[] = [];
    for (let index = 0; index < count; index += 1) bytes.push(yield);
    return (yield) === bytes.reduce((sum, byte) => sum ^ byte, before) ? bytes : undefined;
  }
}

function* silent(): Program {
  for (;;) yield;
}

/** Bit by bit, as the hardware does. */
function crcOf(bytes: Uint8Array, polynomial: number, beginning: number): number {
  const words = Buffer.from(bytes);
  // of 32 bits with a sign, which an engine computes without allocating
  const feedback = polynomial | 0;
  let crc = beginning | 0;
  for (let at = 0; at < words.byteLength; at += 4) {
    crc ^= words.readInt32LE(at);
    for (let bit = 0; bit < 32; bit += 1) crc = crc < 0 ? (crc << 1) ^ feedback : crc << 1;
  }
  return crc >>> 0;
}
