import { createHash } from 'node:crypto';

import { crc16 } from '../../../../src/mcu/crc16.ts';
import { McuError } from '../../../../src/mcu/errors.ts';
import { decodeCbor, encodeCbor, isMap } from '../../../../src/mcu/protocols/cbor.ts';
import type { CborMap } from '../../../../src/mcu/protocols/cbor.ts';
import type { BoardModel, Ran, Said } from './board-model.ts';

export interface SmpModelOptions {
  /** Two images signed for MCUboot. */
  readonly programs: Readonly<Record<'old' | 'new', Uint8Array>>;
  readonly framing: 'console' | 'raw';
  readonly bufferBytes: number;
}

const maxLineBytes = 128;
const sectorBytes = 4096;
const eraseSectorMs = 85;
const writeMs = 3;
const characterMs = 10 / 115.2;

/**
 * MCUboot's serial recovery as its documentation ("Serial recovery") and Zephyr's SMP pages describe it: echo, reset,
 * parameters, image list and upload, into the slot that boots. An image runs only if its digest is right.
 */
export class SmpModel implements BoardModel {
  readonly resetsWhenDtr = 'asserted';
  memory: Uint8Array;
  readonly ran: Ran[] = [];
  readonly violations: string[] = [];
  readonly overruns = 0;
  dead = false;
  readonly #options: SmpModelOptions;
  #recovering = false;
  #line: number[] = [];
  #text = '';
  #expected = 0;
  #length = 0;
  #idleMs = 0;
  #writesLeft = Number.POSITIVE_INFINITY;

  constructor(options: SmpModelOptions) {
    this.#options = options;
    this.memory = Uint8Array.from(options.programs.old);
  }

  reset(_atMs: number): void {
    if (this.dead) return;
    this.#recovering = true;
    this.#line = [];
    this.#text = '';
    this.#expected = 0;
    this.#idleMs = 0;
  }

  power(_atMs: number): void {
    this.dead = false;
    this.#writesLeft = Number.POSITIVE_INFINITY;
    this.#boot();
  }

  dieAtWrite(writes: number): void {
    this.#writesLeft = writes;
  }

  receive(byte: number, atMs: number): readonly Said[] {
    if (this.dead || !this.#recovering) return [];
    this.#idleMs = Math.max(this.#idleMs, atMs);
    const packet = this.#options.framing === 'raw' ? this.#rawByte(byte) : this.#consoleByte(byte);
    const answer = packet === undefined ? undefined : this.#answer(packet);
    return answer === undefined || this.dead ? [] : [{ bytes: this.#frame(answer), atMs: this.#idleMs }];
  }

  #rawByte(byte: number): Buffer | undefined {
    this.#line.push(byte);
    if (this.#line.length < 8) return undefined;
    const packet = Buffer.from(this.#line);
    if (packet.readUInt16BE(2) + 8 > this.#options.bufferBytes) this.#line = [];
    if (packet.byteLength < 8 + packet.readUInt16BE(2)) return undefined;
    this.#line = [];
    return packet;
  }

  #consoleByte(byte: number): Buffer | undefined {
    this.#line.push(byte);
    if (byte !== 0x0a) {
      if (this.#line.length > maxLineBytes) this.#line = [];
      return undefined;
    }
    const [first, second] = this.#line;
    const body = String.fromCharCode(...this.#line.slice(2, -1));
    this.#line = [];
    if (first === 0x06 && second === 0x09) this.#text = body;
    else if (first === 0x04 && second === 0x14) this.#text += body;
    else return undefined;
    const packet = Buffer.from(this.#text, 'base64');
    if (packet.byteLength < 2 || packet.byteLength < packet.readUInt16BE(0) + 2) return undefined;
    this.#text = '';
    const framed = packet.subarray(2, 2 + packet.readUInt16BE(0));
    return crc16(framed) === 0 ? framed.subarray(0, -2) : undefined;
  }

  #answer(packet: Buffer): Buffer | undefined {
    if (packet.byteLength > this.#options.bufferBytes) this.violations.push(`a message of ${packet.byteLength} bytes`);
    const body = this.#obey(packet.readUInt16BE(4), packet.readUInt8(7), requestIn(packet.subarray(8)));
    const payload = encodeCbor(body);
    const head = Buffer.from(packet.subarray(0, 8));
    head.writeUInt8((head.readUInt8(0) & 0x07) + 1, 0);
    head.writeUInt16BE(payload.byteLength, 2);
    return Buffer.concat([head, payload]);
  }

  #obey(group: number, command: number, request: CborMap): CborMap {
    if (group === 0 && command === 6) return { buf_size: this.#options.bufferBytes, buf_count: 1 };
    if (group === 0 && command === 5) {
      this.#boot();
      return { rc: 0 };
    }
    if (group === 1 && command === 0) return { images: this.#images() };
    if (group === 1 && command === 1) return this.#upload(request);
    return { rc: 8 };
  }

  #images(): CborMap[] {
    const hash = hashOf(this.memory);
    return hash === undefined ? [] : [{ slot: 0, version: '1.0.0', hash }];
  }

  #upload({ off, data, len }: CborMap): CborMap {
    if (typeof off !== 'number' || !(data instanceof Uint8Array)) return { rc: 3 };
    if (off === 0) {
      if (typeof len !== 'number') return { rc: 3 };
      this.#length = len;
      this.#expected = 0;
      this.memory = new Uint8Array(len).fill(0xff);
      this.#idleMs += Math.ceil(len / sectorBytes) * eraseSectorMs;
    }
    if (off === this.#expected) {
      this.#writesLeft -= 1;
      if (this.#writesLeft < 0) this.dead = true;
      const isLast = off + data.byteLength >= this.#length;
      const taken = isLast ? data : data.subarray(0, data.byteLength & ~3);
      this.memory.set(taken, off);
      this.#expected += taken.byteLength;
      this.#idleMs += writeMs;
    }
    return { rc: 0, off: this.#expected };
  }

  /** MCUboot starts nothing whose digest is wrong. */
  #boot(): void {
    this.#recovering = false;
    const { programs } = this.#options;
    if (Buffer.compare(this.memory, programs.new) === 0) this.ran.push('new');
    else if (Buffer.compare(this.memory, programs.old) === 0) this.ran.push('old');
    else this.ran.push(hashOf(this.memory) === undefined ? 'parked' : 'broken');
  }

  #frame(packet: Buffer): Uint8Array {
    this.#idleMs += packet.byteLength * characterMs;
    if (this.#options.framing === 'raw') return packet;
    const crc = crc16(packet);
    const length = Buffer.from([(packet.byteLength + 2) >> 8, (packet.byteLength + 2) & 0xff]);
    const framed = Buffer.concat([length, packet, Buffer.from([crc >> 8, crc & 0xff])]);
    const lines: Buffer[] = [];
    for (let from = 0; from < framed.byteLength; from += 93) {
      const start = from === 0 ? [0x06, 0x09] : [0x04, 0x14];
      lines.push(Buffer.from(start), Buffer.from(`${framed.subarray(from, from + 93).toString('base64')}\n`));
    }
    return Buffer.concat(lines);
  }
}

function requestIn(body: Uint8Array): CborMap {
  try {
    const request = decodeCbor(body);
    return isMap(request) ? request : {};
  } catch (error) {
    if (error instanceof McuError) return {};
    throw error;
  }
}

/** The digest of an image that is whole, undefined for anything else. */
function hashOf(image: Uint8Array): Uint8Array | undefined {
  const bytes = Buffer.from(image);
  if (bytes.byteLength < 32 || bytes.readUInt32LE(0) !== 0x96f3b83d) return undefined;
  const end = bytes.readUInt16LE(8) + bytes.readUInt32LE(12);
  const digest = createHash('sha256').update(bytes.subarray(0, end)).digest();
  return bytes.includes(digest, end) ? digest : undefined;
}
