import type { Region } from '../chip.ts';
import { McuError } from '../errors.ts';
import { attempt, exchange, persist, say, unitAt } from '../protocol.ts';
import type { Answer, Conversation, MemorySession, Protocol } from '../protocol.ts';
import { avrChip, pageWorkMs, parkedPage } from './avr-chips.ts';
import type { AvrChip, AvrSettings } from './avr-chips.ts';
import { startedByReset } from './reset-pulse.ts';

/** Source: Atmel AVR068, "STK500 Communication Protocol" 2.0: frames in section 3, commands in 4 and 5. */
const messageStart = 0x1b;
const token = 0x0e;
const command = {
  signOn: 0x01,
  loadAddress: 0x06,
  leaveProgramming: 0x11,
  chipErase: 0x12,
  programFlash: 0x13,
  readFlash: 0x14,
  readFuse: 0x18,
  readSignature: 0x1b,
} as const;
const statusOk = 0x00;
const frameBytes = 6;
/** The address bit for extended addressing above 64 Ki words. */
const extendedAddress = 0x80000000;

const maxSignOns = 3;
/**
 * Longer than the longest message, so that it completes an interrupted message. Its byte is a rare one, since the checksum
 * is only an XOR.
 */
const filler = new Uint8Array(300).fill(0xa5);

/**
 * The Wiring bootloader of the ATmega2560 and its relatives. With each page written, it erases the page after the one
 * erased before, whatever the address. So pages must be written in order from the first one, and "chip erase" only
 * restarts that order. Therefore all pages behind the first one are one unit here, which is rewritten as a whole.
 */
export function stk500v2(settings: AvrSettings = {}): Protocol {
  return startedByReset('stk500v2', () => new Stk500v2(settings).connect());
}

class Stk500v2 {
  readonly #settings: AvrSettings;
  #sequence = 0;
  /** The address of the next page if none is sent; reading and writing advance it. */
  #nextAddress: number | undefined;

  constructor(settings: AvrSettings) {
    this.#settings = settings;
  }

  *connect(): Conversation<MemorySession> {
    yield* this.#signOn();
    const signature = new Uint8Array(3);
    for (const index of signature.keys()) {
      const answer = yield* this.#command([command.readSignature, 4, 0x30, 0, index, 0], 4);
      signature[index] = answer[2] ?? 0;
    }
    const bootloader = { kind: 'wiring', highFuse: yield* this.#highFuse() } as const;
    return this.#session(avrChip(signature, bootloader, this.#settings));
  }

  /** AVR068, CMD_READ_FUSE_ISP, with the instruction for the high fuse byte; undefined if the bootloader refuses it. */
  *#highFuse(): Conversation<number | undefined> {
    const answer = yield* this.#converse([command.readFuse, 4, 0x58, 0x08, 0, 0], 4);
    return answer[1] === statusOk ? answer[2] : undefined;
  }

  #session(chip: AvrChip): MemorySession {
    return {
      kind: 'memory',
      chip,
      unitsOf: (region) => unitsInOrder(region, chip),
      blockBytes: chip.pageBytes,
      read: (address, length) => this.#read(address, length),
      erase: (unit) => this.#beginAt(unit, chip),
      write: (address, bytes) => this.#write(address, bytes),
      writes: 'in-order',
      guardOf: unitAt(chip.application.start),
      parked: parkedPage,
      checksFrames: true,
      resume: () => this.#resume(),
      start: () => this.#start(),
    };
  }

  *#signOn(): Conversation<void> {
    yield* persist(() => {
      this.#sequence = 0;
      this.#nextAddress = undefined;
      return this.#command([command.signOn], 11);
    }, maxSignOns);
  }

  *#resume(): Conversation<void> {
    yield* say(filler);
    yield* this.#signOn();
  }

  /** AVR068, 5.7, as this bootloader does it: the next page written erases the first one. */
  *#beginAt(unit: Region, chip: AvrChip): Conversation<void> {
    yield* this.#converse([command.chipErase, 0, 0, 0, 0, 0, 0], 2);
    if (unit.start === chip.flash.start) return;
    const first = new Uint8Array(chip.pageBytes).fill(0xff);
    first.set(parkedPage);
    yield* this.#write(chip.flash.start, first);
  }

  /** AVR068, 5.9. */
  *#read(address: number, length: number): Conversation<Uint8Array> {
    yield* this.#moveTo(address);
    const answer = yield* this.#command([command.readFlash, length >> 8, length & 0xff, 0x20], length + 3);
    this.#nextAddress = address + length;
    return answer.subarray(2, 2 + length);
  }

  /** AVR068, 5.8; mode and SPI commands mean nothing to a bootloader. */
  *#write(address: number, bytes: Uint8Array): Conversation<void> {
    yield* this.#moveTo(address);
    const { byteLength } = bytes;
    const head = [command.programFlash, byteLength >> 8, byteLength & 0xff, 0xc1, 10, 0x40, 0x4c, 0x20, 0, 0];
    yield* this.#command([...head, ...bytes], 2, pageWorkMs);
    this.#nextAddress = address + bytes.byteLength;
  }

  /** AVR068, 4.5: the address counts words. */
  *#moveTo(address: number): Conversation<void> {
    if (this.#nextAddress === address) return;
    const words = Buffer.alloc(4);
    words.writeUInt32BE((address >>> 1) + (address >= 0x20000 ? extendedAddress : 0));
    yield* this.#command([command.loadAddress, ...words], 2);
    this.#nextAddress = address;
  }

  *#start(): Conversation<void> {
    yield* attempt(this.#frame([command.leaveProgramming, 1, 1]), framed(2));
  }

  /** Sends a command that must succeed. */
  *#command(body: readonly number[], answerBytes: number, workMs = 0): Conversation<Uint8Array> {
    const answer = yield* this.#converse(body, answerBytes, workMs);
    requireOk(answer);
    return answer;
  }

  /** Sends a message, and returns the body of the answer after checking its frame. */
  *#converse(body: readonly number[], answerBytes: number, workMs = 0): Conversation<Uint8Array> {
    const send = this.#frame(body);
    const nextAddress = this.#nextAddress;
    this.#nextAddress = undefined;
    const frame = yield* exchange(send, framed(answerBytes), workMs);
    const sum = frame.reduce((total, byte) => total ^ byte, 0);
    if (sum !== 0 || frame[1] !== this.#sequence || frame[5] !== body[0]) {
      throw new McuError('board-bad-response', 'the answer of the bootloader is damaged');
    }
    this.#nextAddress = nextAddress;
    return frame.subarray(5, -1);
  }

  #frame(body: readonly number[]): Uint8Array {
    this.#sequence = (this.#sequence + 1) & 0xff;
    const head = [messageStart, this.#sequence, body.length >> 8, body.length & 0xff, token];
    const sum = [...head, ...body].reduce((total, byte) => total ^ byte, 0);
    return Uint8Array.of(...head, ...body, sum);
  }
}

/** The first page is a unit of its own, so that it can be parked; all others are one unit. */
function unitsInOrder({ end }: Region, { pageBytes, flash }: AvrChip): Region[] {
  const first = { start: flash.start, end: flash.start + pageBytes };
  const last = Math.ceil(end / pageBytes) * pageBytes;
  return last > first.end ? [first, { start: first.end, end: last }] : [first];
}

/** A frame with a body of at most this number of bytes. */
function framed(bodyBytes: number): Answer {
  return {
    atMost: bodyBytes + frameBytes,
    length: (received) => {
      const [start, , high = 0, low = 0, end] = received;
      if (start === undefined) return 0;
      if (start !== messageStart || (end !== undefined && end !== token)) return received.byteLength;
      const length = (high << 8) + low + frameBytes;
      if (received.byteLength >= 4 && length > bodyBytes + frameBytes) return received.byteLength;
      return received.byteLength >= Math.max(length, frameBytes) ? length : 0;
    },
  };
}

function requireOk(body: Uint8Array): void {
  if (body[1] === statusOk) return;
  throw new McuError('board-refused', `the bootloader refuses command ${body[0] ?? 0} with status ${body[1] ?? 0}`);
}
