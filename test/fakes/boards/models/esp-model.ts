import { programIn } from './board-model.ts';
import type { BoardModel, Ran, Said } from './board-model.ts';
import { startFrom } from './esp-bootloader.ts';
import { isWholeEspImage } from './esp-image.ts';
import { EspRom } from './esp-rom.ts';
import type { EspAnswer } from './esp-rom.ts';
import type { EspTraits } from './esp-traits.ts';
import { SpiFlash } from './spi-flash.ts';

export interface EspModelOptions {
  readonly traits: EspTraits;
  readonly programs: Readonly<Record<'old' | 'new', Uint8Array>>;
  /** Address of the programs. */
  readonly start: number;
  readonly flashBytes?: number;
  /** The second-stage bootloader is built with rollback. */
  readonly rollback?: boolean;
}

const [frameEnd, frameEscape, escapedEnd, escapedEscape] = [0xc0, 0xdb, 0xdc, 0xdd];
const syncCommand = 8;
/** Bytes that a ROM, or the stub, keeps while it works. */
const [romFifoBytes, stubFifoBytes] = [128, 40_000];
const bootMs = 2;
const bootText =
  'rst:0x1 (POWERON_RESET),boot:0x3 (DOWNLOAD_BOOT(UART0/UART1/SDIO_REI_REO_V2))\r\nwaiting for download\r\n';
const hello = Uint8Array.of(frameEnd, 0x4f, 0x48, 0x41, 0x49, frameEnd);

/**
 * An ESP on a board with Espressif's reset circuit: enable pin, GPIO0, UART with baud detection, and its loader (esp-
 * rom.ts). It starts no image with a wrong checksum. Records forbidden actions of a host: programming without erasing,
 * and bytes while the chip is busy.
 */
export class EspModel implements BoardModel {
  readonly resetsWhenDtr = 'asserted';
  readonly memory: Uint8Array;
  readonly #ran: Ran[] = [];
  overruns = 0;
  /** Bytes that came at another baud rate than the chip's. */
  misheard = 0;
  readonly flash: SpiFlash;
  readonly #options: EspModelOptions;
  #rom: EspRom | undefined;
  readonly #rejected: string[] = [];
  #lines = { dtr: false, rts: false };
  #releasedMs: number | undefined;
  #hostBaud = 115_200;
  #baud: number | undefined;
  #frame: number[] | undefined;
  #escaping = false;
  #nowMs = 0;
  #busyUntilMs = 0;
  #waiting = 0;
  #text = '';

  constructor(options: EspModelOptions) {
    this.#options = options;
    this.flash = new SpiFlash(options.flashBytes ?? 256 * 1024);
    this.flash.bytes.set(options.programs.old, options.start);
    this.memory = this.flash.bytes.subarray(options.start, options.start + options.programs.old.byteLength);
  }

  get ran(): readonly Ran[] {
    this.#boot(Number.POSITIVE_INFINITY);
    return this.#ran;
  }

  get dead(): boolean {
    return this.flash.dead;
  }

  get violations(): readonly string[] {
    return this.flash.violations;
  }

  /** Commands that a loader refuses: without a fault on the wire, none. */
  get rejected(): readonly string[] {
    return [...this.#rejected, ...(this.#rom?.rejected ?? [])];
  }

  settings(baud: number): void {
    this.#hostBaud = baud;
  }

  /** The two transistors: both lines asserted, or none, do nothing. The enable pin rises slowly: GPIO0 may follow it. */
  modem(lines: { readonly dtr: boolean; readonly rts: boolean }, atMs: number): readonly Said[] {
    this.#boot(atMs);
    const wasReset = this.#inReset();
    this.#lines = { dtr: lines.dtr, rts: lines.rts };
    if (this.#inReset()) this.#stop();
    else if (wasReset && this.#holdsLow()) this.#startLoader();
    else if (wasReset) this.#releasedMs = atMs;
    else if (this.#releasedMs !== undefined && this.#holdsLow()) {
      this.#releasedMs = undefined;
      this.#startLoader();
    }
    return this.#takeText(atMs);
  }

  /** By hand, with GPIO0 held low. */
  reset(atMs: number): void {
    this.#stop();
    this.#startLoader();
    this.#nowMs = atMs;
  }

  power(_atMs: number): void {
    this.flash.power();
    this.#stop();
    this.#runApplication();
  }

  dieAtWrite(writes: number, torn: boolean): void {
    this.flash.dieAtOperation(writes, torn);
  }

  poll(untilMs: number): readonly Said[] {
    this.#boot(untilMs);
    return this.#takeText(untilMs);
  }

  receive(byte: number, atMs: number): readonly Said[] {
    this.#boot(atMs);
    const rom = this.#rom;
    if (this.dead || rom === undefined) return [];
    this.#waiting = atMs < this.#busyUntilMs ? this.#waiting + 1 : 0;
    if (this.#waiting > (rom.isStub ? stubFifoBytes : romFifoBytes)) {
      this.overruns += 1;
      return [];
    }
    this.#nowMs = Math.max(atMs, this.#busyUntilMs);
    const text = this.#takeText(this.#nowMs);
    const packet = this.#hear(this.#baud === undefined || this.#baud === this.#hostBaud ? byte : this.#mishear(byte));
    return packet === undefined ? text : [...text, ...this.#answer(rom, packet)];
  }

  #inReset(): boolean {
    return this.#lines.rts && !this.#lines.dtr;
  }

  #holdsLow(): boolean {
    return this.#lines.dtr && !this.#lines.rts;
  }

  /** A chip that is released from reset and receives no command in time starts its application. */
  #boot(atMs: number): void {
    if (this.#releasedMs === undefined || atMs < this.#releasedMs + bootMs || this.dead) return;
    this.#releasedMs = undefined;
    this.#runApplication();
  }

  #startLoader(): void {
    if (this.dead) return;
    this.#rom = new EspRom(this.#options.traits, this.flash);
    this.#text = bootText;
  }

  #runApplication(): void {
    this.#rom = undefined;
    const memory = this.#started();
    const found = programIn(memory, 'erased', this.#options.programs);
    this.#ran.push(found === 'broken' && !isWholeEspImage(memory) ? 'parked' : found);
  }

  /** With a partition table, the program that the second-stage bootloader chooses (esp-bootloader.ts). */
  #started(): Uint8Array {
    const { bytes } = this.flash;
    if (bytes[0x8000] !== 0xaa) return this.memory;
    const start = startFrom(bytes, this.#options.rollback === true, this.#options.traits);
    return start === undefined ? new Uint8Array(16).fill(0xff) : bytes.subarray(start, start + this.memory.byteLength);
  }

  #stop(): void {
    this.#rejected.push(...(this.#rom?.rejected ?? []));
    this.#rom = undefined;
    this.#releasedMs = undefined;
    this.#baud = undefined;
    this.#frame = undefined;
    this.#busyUntilMs = 0;
    this.#waiting = 0;
    this.#text = '';
  }

  #takeText(atMs: number): readonly Said[] {
    if (this.#text === '') return [];
    const bytes = Buffer.from(this.#text, 'latin1');
    this.#text = '';
    return [{ bytes, atMs }];
  }

  #mishear(byte: number): number {
    this.misheard += 1;
    return byte ^ 0x5a;
  }

  /** SLIP: a packet, where the byte ends one. */
  #hear(byte: number): Buffer | undefined {
    if (byte === frameEnd) {
      const packet = this.#frame;
      this.#frame = packet === undefined || packet.length === 0 ? [] : undefined;
      this.#escaping = false;
      return packet === undefined || packet.length === 0 ? undefined : Buffer.from(packet);
    }
    if (byte === frameEscape) this.#escaping = true;
    else if (this.#escaping) {
      this.#escaping = false;
      this.#frame?.push(byte === escapedEnd ? frameEnd : byte === escapedEscape ? frameEscape : byte);
    } else this.#frame?.push(byte);
    return undefined;
  }

  #answer(rom: EspRom, packet: Buffer): readonly Said[] {
    const answer = rom.obey(packet);
    if (answer === undefined || this.dead) return [];
    if (answer.command === syncCommand) this.#baud ??= this.#hostBaud;
    this.#nowMs += answer.workMs;
    this.#busyUntilMs = this.#nowMs + answer.afterMs;
    const said = Array.from({ length: answer.times }, () => this.#say(frameOf(answer)));
    const { effect } = rom;
    if (effect?.kind === 'baud') this.#baud = effect.baud;
    if (effect?.kind === 'reboot') this.#runApplication();
    if (effect?.kind === 'stub') {
      rom.becomeStub();
      said.push(this.#say(hello));
    }
    return said;
  }

  #say(bytes: Uint8Array): Said {
    const heard = this.#baud === undefined || this.#baud === this.#hostBaud;
    return { bytes: heard ? bytes : bytes.map((byte) => byte ^ 0x5a), atMs: this.#nowMs };
  }
}

function frameOf({ command, value, data }: EspAnswer): Uint8Array {
  const head = Buffer.alloc(8);
  head.writeUInt8(1, 0);
  head.writeUInt8(command, 1);
  head.writeUInt16LE(data.byteLength, 2);
  head.writeUInt32LE(value, 4);
  const escaped = [...head, ...data].flatMap((byte) => {
    if (byte === frameEnd) return [frameEscape, escapedEnd];
    return byte === frameEscape ? [frameEscape, escapedEscape] : [byte];
  });
  return Uint8Array.of(frameEnd, ...escaped, frameEnd);
}
