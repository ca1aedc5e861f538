import { crc16 } from '../../../../../src/mcu/crc16.ts';
import { McuError } from '../../../../../src/mcu/errors.ts';
import { decodeCbor, encodeCbor, isMap } from '../../../../../src/mcu/protocols/cbor.ts';
import type { CborMap } from '../../../../../src/mcu/protocols/cbor.ts';
import type { BoardModel, Ran, Said } from '../board-model.ts';
import { hashOf, McubootImage } from './mcuboot.ts';
import { ApplicationServer, SerialRecovery } from './smp-servers.ts';
import type { SmpServer, SmpServerOptions } from './smp-servers.ts';

export interface SmpModelOptions extends Omit<SmpServerOptions, 'images'> {
  /** Two images signed for MCUboot; `old` is in the first slot. */
  readonly programs: Readonly<Record<'old' | 'new', Uint8Array>>;
  readonly framing: 'console' | 'raw';
  /** The server: MCUboot's serial recovery, entered by a reset, or the application. */
  readonly server?: 'recovery' | 'application';
  readonly mode?: 'swap' | 'overwrite';
  /** Content of the second slot. */
  readonly other?: Uint8Array;
  /** Contents of the images before the flashed one. If empty, the server has only one image, without a number. */
  readonly imagesBefore?: readonly Uint8Array[];
  /** The application confirms its image when it starts. */
  readonly confirmsItself?: boolean;
  /** MCUboot refuses images of this content, as if their signature were wrong. */
  readonly refuses?: Uint8Array;
}

const maxLineBytes = 128;
const sectorBytes = 4096;
const eraseSectorMs = 85;
const writeMs = 3;
const characterMs = 10 / 115.2;
/** Time between Zephyr's reply and its reset (MCUMGR_GRP_OS_RESET_MS); the same in MCUboot. */
const resetDelayMs = 250;
const swapMs = 12_000;
const bootMs = 400;

/**
 * A board with MCUboot behind a serial line, and the two servers that speak SMP on it (smp-servers.ts). An image runs
 * only if its digest is right.
 */
export class SmpModel implements BoardModel {
  readonly resetsWhenDtr = 'asserted';
  readonly #ran: Ran[] = [];
  readonly violations: string[] = [];
  readonly overruns = 0;
  dead = false;
  readonly images: readonly McubootImage[];
  readonly #options: SmpModelOptions;
  readonly #server: SmpServer;
  readonly #isRecovery: boolean;
  #recovering = false;
  #line: number[] = [];
  #text = '';
  #idleMs = 0;
  #resetAtMs: number | undefined;
  #writesLeft = Number.POSITIVE_INFINITY;
  #upMs = 0;

  constructor(options: SmpModelOptions) {
    this.#options = options;
    const { programs, mode = 'swap', other, imagesBefore = [], server = 'recovery' } = options;
    const wanted = new McubootImage(mode, Uint8Array.from(programs.old), other);
    this.images = [...imagesBefore.map((before) => new McubootImage(mode, before)), wanted];
    this.#isRecovery = server === 'recovery';
    const effects = { onWrite: (erasedBytes: number): boolean => this.#wrote(erasedBytes) };
    const serverOptions = { ...options, images: this.images };
    this.#server = this.#isRecovery
      ? new SerialRecovery(serverOptions, effects)
      : new ApplicationServer(serverOptions, effects);
  }

  get ran(): readonly Ran[] {
    if (this.#resetAtMs !== undefined) this.#boot(this.#resetAtMs);
    return this.#ran;
  }

  /** Content of the first slot of the flashed image. */
  get memory(): Uint8Array {
    return this.#flashed.slots[0].image ?? new Uint8Array();
  }

  reset(atMs: number): void {
    if (this.dead) return;
    this.#line = [];
    this.#text = '';
    this.#resetAtMs = undefined;
    this.#idleMs = 0;
    if (this.#isRecovery) this.#recovering = true;
    else this.#boot(atMs);
  }

  power(atMs: number): void {
    this.dead = false;
    this.#writesLeft = Number.POSITIVE_INFINITY;
    if (this.#resetAtMs !== undefined) this.#boot(this.#resetAtMs);
    this.#boot(atMs);
  }

  dieAtWrite(writes: number): void {
    this.#writesLeft = writes;
  }

  receive(byte: number, atMs: number): readonly Said[] {
    if (this.#resetAtMs !== undefined && atMs >= this.#resetAtMs) this.#boot(this.#resetAtMs);
    const isListening = this.#isRecovery ? this.#recovering : atMs >= this.#upMs;
    if (this.dead || !isListening) return [];
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

  /** MCUboot (`boot_serial_input`) and Zephyr ignore a packet without a whole header; the CRC of an empty one is right. */
  #answer(packet: Buffer): Buffer | undefined {
    if (packet.byteLength < 8) return undefined;
    if (packet.byteLength > this.#options.bufferBytes) this.violations.push(`a message of ${packet.byteLength} bytes`);
    const [isWrite, group, command] = [(packet[0] ?? 0) === 2, packet.readUInt16BE(4), packet.readUInt8(7)];
    const body = this.#server.obey(isWrite, group, command, requestIn(packet.subarray(8)));
    if (group === 0 && command === 5) this.#resetAtMs = this.#idleMs + resetDelayMs;
    const payload = encodeCbor(body);
    const head = Buffer.from(packet.subarray(0, 8));
    head.writeUInt8((head.readUInt8(0) & 0x07) + 1, 0);
    head.writeUInt16BE(payload.byteLength, 2);
    return Buffer.concat([head, payload]);
  }

  #wrote(erasedBytes: number): boolean {
    this.#idleMs += Math.ceil(erasedBytes / sectorBytes) * eraseSectorMs + writeMs;
    this.#writesLeft -= 1;
    if (this.#writesLeft < 0) this.dead = true;
    return true;
  }

  get #flashed(): McubootImage {
    return this.images.at(-1) ?? new McubootImage('swap', undefined);
  }

  /** MCUboot starts nothing whose digest is wrong. */
  #boot(atMs: number): void {
    this.#resetAtMs = undefined;
    this.#recovering = false;
    const { programs, confirmsItself, refuses } = this.#options;
    let changed = false;
    for (const image of this.images) {
      if (refuses !== undefined && isEqual(image.slots[1].image, refuses)) image.erase(1, new Uint8Array());
      changed = image.start() || changed;
      if (confirmsItself === true) image.setNext(0, true);
    }
    this.#upMs = atMs + bootMs + (changed ? swapMs : 0);
    const runs = this.memory;
    if (isEqual(runs, programs.new)) this.#ran.push('new');
    else if (isEqual(runs, programs.old)) this.#ran.push('old');
    else this.#ran.push(hashOf(runs) === undefined ? 'parked' : 'broken');
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

function isEqual(a: Uint8Array | undefined, b: Uint8Array): boolean {
  return a !== undefined && Buffer.compare(a, b) === 0;
}
