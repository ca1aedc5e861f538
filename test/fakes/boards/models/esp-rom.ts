import { createHash } from 'node:crypto';

import { EspDownload } from './esp-download.ts';
import type { EspTraits } from './esp-traits.ts';
import type { SpiFlash } from './spi-flash.ts';

/**
 * A reply of the loader, with the time it took before, and the time it is busy afterwards while it receives the next
 * packet.
 */
export interface EspAnswer {
  readonly command: number;
  readonly value: number;
  readonly data: Uint8Array;
  readonly times: number;
  readonly workMs: number;
  readonly afterMs: number;
}

/** An effect of a command beyond its reply. */
export type EspEffect =
  | { readonly kind: 'reboot' }
  | { readonly kind: 'stub' }
  | { readonly kind: 'baud'; readonly baud: number };

const [invalidMessage, failed, checksumError] = [0x05, 0x06, 0x07];
const md5MsPerByte = 500 / (1024 * 1024);
const magicRegister = 0x4000_1000;
const runBit = 0x0004_0000;
const checksumSeed = 0xef;
const allowedWhenLocked = new Set([0x02, 0x03, 0x04, 0x08, 0x0b, 0x0d, 0x0f, 0x14]);
/** Commands that the ROM of an ESP8266 lacks. */
const modernOnly = new Set([0x0b, 0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12, 0x13, 0x14]);

type Obeying = (command: number, packet: Buffer) => EspAnswer;

/**
 * The ROM loader of an ESP, and Espressif's stub once it is loaded, after "Serial Protocol" of the esptool
 * documentation: packets in, replies out. Records forbidden packets as `rejected`; a fault on the wire may be the
 * reason.
 */
export class EspRom {
  readonly rejected: string[] = [];
  readonly #traits: EspTraits;
  readonly #flash: SpiFlash;
  readonly #registers = new Map<number, number>();
  readonly #download: EspDownload;
  #isStub = false;
  #attached = false;
  /** A ROM accepts any size that the host sets. */
  #flashBytes = 0;
  effect: EspEffect | undefined;

  constructor(traits: EspTraits, flash: SpiFlash) {
    this.#traits = traits;
    this.#flash = flash;
    this.#download = new EspDownload(flash, traits);
    this.#registers.set(magicRegister, traits.magic);
    for (const [address, value] of traits.fuses) this.#registers.set(address, value);
  }

  becomeStub(): void {
    this.#isStub = true;
    this.#attached = true;
    this.#download.becomeStub();
  }

  get isStub(): boolean {
    return this.#isStub;
  }

  /** Returns undefined for a packet that loaders ignore. */
  obey(packet: Buffer): EspAnswer | undefined {
    this.effect = undefined;
    if (packet.byteLength < 8 || packet.readUInt8(0) !== 0) return undefined;
    const command = packet.readUInt8(1);
    if (packet.byteLength - 8 !== packet.readUInt16LE(2)) return this.#reject(command, 'a wrong length');
    const isLocked = this.#traits.locked && !allowedWhenLocked.has(command);
    const isTooNew = !this.#traits.modern && !this.#isStub && modernOnly.has(command);
    const obeying = isLocked || isTooNew ? undefined : this.#commands.get(command);
    return obeying === undefined ? this.#lacks() : obeying(command, packet);
  }

  readonly #commands: ReadonlyMap<number, Obeying> = new Map<number, Obeying>([
    [0x02, (command, packet) => this.#begin(command, packet.subarray(8))],
    [0x10, (command, packet) => this.#begin(command, packet.subarray(8))],
    [0x03, (command, packet) => this.#data(command, packet)],
    [0x11, (command, packet) => this.#data(command, packet)],
    [0x04, (command, packet) => this.#end(command, packet.subarray(8))],
    [0x12, (command, packet) => this.#end(command, packet.subarray(8))],
    [0x05, (command) => this.#done(command)],
    [0x07, (command) => this.#done(command)],
    [0x06, (command) => this.#after(command, { kind: 'stub' })],
    [0x08, (command) => this.#synchronised(command)],
    [0x09, (_, packet) => this.#writeRegister(packet.subarray(8))],
    [0x0a, (command, packet) => this.#readRegister(command, packet.subarray(8))],
    [0x0b, (command, packet) => this.#setParameters(command, packet.subarray(8))],
    [0x0d, (command, packet) => this.#attach(command, packet.subarray(8))],
    [0x0e, (command, packet) => this.#readFlash(command, packet.subarray(8))],
    [0x0f, (command, packet) => this.#changeBaud(command, packet.subarray(8))],
    [0x13, (_, packet) => this.#md5(packet.subarray(8))],
    [0x14, (command) => this.#tellSecurity(command)],
  ]);

  #after(command: number, effect: EspEffect): EspAnswer {
    this.effect = effect;
    return this.#done(command);
  }

  #synchronised(command: number): EspAnswer {
    return { ...this.#done(command, 0, this.#isStub ? 0 : 0x2012_0707), times: this.#isStub ? 1 : 8 };
  }

  #readRegister(command: number, data: Buffer): EspAnswer {
    if (data.byteLength !== 4) return this.#reject(command, 'a register without address');
    return this.#done(command, 0, this.#registers.get(data.readUInt32LE(0)) ?? 0);
  }

  #setParameters(command: number, data: Buffer): EspAnswer {
    if (data.byteLength !== 24) return this.#reject(command, 'parameters of another length');
    this.#flashBytes = data.readUInt32LE(4);
    return this.#done(command);
  }

  #attach(command: number, data: Buffer): EspAnswer {
    if (!this.#isStub && data.byteLength !== 8) return this.#reject(command, 'an attachment of another length');
    this.#attached = true;
    return this.#done(command);
  }

  /** READ_FLASH_SLOW: at most 64 bytes, and always 64 in the reply. */
  #readFlash(command: number, data: Buffer): EspAnswer {
    if (this.#isStub) return this.#lacks();
    if (!this.#attached || data.byteLength !== 8) return this.#reject(command, 'a read of another length');
    const [start, length] = [data.readUInt32LE(0), data.readUInt32LE(4)];
    if (length > 64 || !this.#reaches(start + length)) return this.#reject(command, 'a read too long', failed);
    return this.#done(command, 1, 0, Buffer.concat([this.#flash.bytes.subarray(start, start + length)], 64));
  }

  #changeBaud(command: number, data: Buffer): EspAnswer {
    if (data.byteLength !== 8) return this.#reject(command, 'a baud rate of another length');
    return this.#after(command, { kind: 'baud', baud: data.readUInt32LE(0) });
  }

  #tellSecurity(command: number): EspAnswer {
    const { securityInfo } = this.#traits;
    return securityInfo === undefined ? this.#lacks() : this.#done(command, 0, 0, securityInfo);
  }

  #begin(command: number, data: Buffer): EspAnswer {
    if (data.byteLength !== (this.#traits.fifthWord && !this.#isStub ? 20 : 16)) {
      return this.#reject(command, 'a beginning of another length');
    }
    if (!this.#traits.modern) this.#attached = true;
    if (!this.#attached) return this.#reject(command, 'flash memory before it is attached');
    if (!this.#reaches(data.readUInt32LE(12) + data.readUInt32LE(0)))
      return this.#reject(command, 'flash memory too small');
    const workMs = this.#download.begin({
      deflated: command === 0x10,
      size: data.readUInt32LE(0),
      packetBytes: data.readUInt32LE(8),
      offset: data.readUInt32LE(12),
    });
    return workMs === undefined ? this.#refuse(command, failed) : this.#done(command, workMs);
  }

  #data(command: number, packet: Buffer): EspAnswer {
    const data = packet.subarray(8);
    if (data.byteLength < 16) return this.#reject(command, 'a packet without its head');
    const part = data.subarray(16);
    if (part.byteLength !== data.readUInt32LE(0)) return this.#reject(command, 'data of a wrong length');
    const sum = part.reduce((before, byte) => before ^ byte, checksumSeed);
    if (sum !== packet.readUInt32LE(4)) return this.#reject(command, 'a bad checksum', checksumError);
    const taken = this.#download.take(part, data.readUInt32LE(4), command === 0x11);
    if (taken.error !== undefined) return this.#reject(command, taken.why, taken.error);
    // The stub answers first, and writes while the next packet comes.
    const answer = this.#done(command, this.#isStub ? 0 : taken.workMs);
    return this.#isStub ? { ...answer, afterMs: taken.workMs } : answer;
  }

  #end(command: number, data: Buffer): EspAnswer {
    if (!this.#isStub && data.byteLength === 4) this.effect = { kind: 'reboot' };
    return this.#done(command);
  }

  #writeRegister(data: Buffer): EspAnswer {
    if (data.byteLength < 16) return this.#reject(0x09, 'a register without value, mask and delay');
    const [address, value] = [data.readUInt32LE(0), data.readUInt32LE(4)];
    this.#registers.set(address, value);
    const { base, user2, data0 } = this.#traits.spi;
    const runs = address === base && (value & runBit) !== 0;
    if (runs && this.#attached && ((this.#registers.get(base + user2) ?? 0) & 0xff) === 0x9f) {
      this.#registers.set(base + data0, this.#flash.jedecId);
    }
    if (runs) this.#registers.set(base, 0);
    return this.#done(0x09);
  }

  #reaches(end: number): boolean {
    const isTold = this.#traits.modern && !this.#isStub;
    return end <= (isTold ? this.#flashBytes : this.#flash.bytes.byteLength);
  }

  #md5(data: Buffer): EspAnswer {
    if (!this.#attached || data.byteLength !== 16) return this.#reject(0x13, 'a digest of nothing');
    const [start, length] = [data.readUInt32LE(0), data.readUInt32LE(4)];
    if (!this.#reaches(start + length)) return this.#reject(0x13, 'flash memory too small', failed);
    const digest = createHash('md5')
      .update(this.#flash.bytes.subarray(start, start + length))
      .digest();
    const body = this.#isStub ? digest : Buffer.from(digest.toString('hex'), 'latin1');
    return this.#done(0x13, length * md5MsPerByte, 0, body);
  }

  #done(command: number, workMs = 0, value = 0, body: Uint8Array = new Uint8Array()): EspAnswer {
    const status = new Uint8Array(this.#isStub || !this.#traits.modern ? 2 : 4);
    return { command, value, data: Buffer.concat([body, status]), times: 1, workMs, afterMs: 0 };
  }

  #refuse(command: number, error: number): EspAnswer {
    const answer = this.#done(command);
    return { ...answer, data: Uint8Array.from(answer.data, (_, index) => [1, error][index] ?? 0) };
  }

  #reject(command: number, what: string, error = invalidMessage): EspAnswer {
    this.rejected.push(`${what}, command ${command}`);
    return this.#refuse(command, error);
  }

  /** To what it lacks, a ROM answers eight times, and under another name. */
  #lacks(): EspAnswer {
    return { ...this.#refuse(0, invalidMessage), times: this.#isStub ? 1 : 8 };
  }
}
