import { crc16 } from '../../../../src/mcu/crc16.ts';
import type { BoardModel, Ran, Said } from './board-model.ts';
import { programIn } from './board-model.ts';

const blockTimeoutMs = 1_000;
/** After SOH and STX. */
const blockBytes: Readonly<Record<number, number>> = { 0x01: 128, 0x02: 1024 };

export interface XmodemOptions {
  /** The text after a reset, before the first call. */
  readonly banner?: string;
  readonly callEveryMs?: number;
  /** Prints this again and again instead, or these in turn, and receives nothing: an application. */
  readonly application?: string | readonly string[];
}
const answerMs = 2;

/**
 * A bootloader that receives XMODEM with CRC into a second slot, as MCUs with two slots do: the application is replaced at
 * the end, or not at all. After the "XMODEM/YMODEM Protocol Reference", 7.3.2.
 */
export class XmodemModel implements BoardModel {
  readonly resetsWhenDtr = 'asserted';
  memory: Uint8Array;
  readonly ran: Ran[] = [];
  readonly violations: string[] = [];
  readonly overruns = 0;
  dead = false;
  /** The number of bytes from the host. */
  received = 0;
  readonly #programs: Readonly<Record<'old' | 'new', Uint8Array>>;
  readonly #options: XmodemOptions;
  #state: 'application' | 'receiving' = 'application';
  #block: number[] = [];
  #lastByteMs = 0;
  #received: number[] = [];
  #expected = 1;
  #cancels = 0;
  #ends = 0;
  #calls: { readonly bytes: Uint8Array; readonly atMs: number }[] = [];
  #blocksLeft = Number.POSITIVE_INFINITY;

  constructor(programs: Readonly<Record<'old' | 'new', Uint8Array>>, options: XmodemOptions = {}) {
    this.#options = options;
    this.#programs = programs;
    this.memory = Uint8Array.from(programs.old);
  }

  reset(atMs: number): void {
    if (this.dead) return;
    this.#state = 'receiving';
    this.#block = [];
    this.#received = [];
    this.#expected = 1;
    this.#cancels = 0;
    const { banner, callEveryMs = 3_000, application } = this.#options;
    const texts = [application ?? 'C'].flat();
    const most = callEveryMs < 1_000 ? 60 : 5;
    const calls = Array.from({ length: application === undefined ? most : 500 }, (_, index) => ({
      bytes: Buffer.from(texts[index % texts.length] ?? ''),
      atMs: atMs + 150 + index * callEveryMs,
    }));
    const printed = banner === undefined ? [] : [{ bytes: Buffer.from(banner), atMs: atMs + 140 }];
    this.#calls = [...printed, ...calls];
  }

  power(_atMs: number): void {
    this.dead = false;
    this.#blocksLeft = Number.POSITIVE_INFINITY;
    this.#leave();
  }

  dieAtWrite(writes: number): void {
    this.#blocksLeft = writes;
  }

  /** A call for a transfer, or a NAK after a silence inside a block. */
  poll(untilMs: number): readonly Said[] {
    if (this.dead || this.#state !== 'receiving') return [];
    const [call] = this.#calls;
    if (call !== undefined && call.atMs <= untilMs) {
      this.#calls.shift();
      return [{ ...call, atMs: call.atMs + answerMs }];
    }
    if (this.#block.length === 0 || untilMs - this.#lastByteMs < blockTimeoutMs) return [];
    this.#block = [];
    return this.#say(0x15, this.#lastByteMs + blockTimeoutMs);
  }

  receive(byte: number, atMs: number): readonly Said[] {
    if (this.dead || this.#state !== 'receiving') return [];
    this.received += 1;
    if (this.#options.application !== undefined) return [];
    this.#calls = [];
    this.#lastByteMs = atMs;
    const control = this.#block.length === 0 ? this.#control(byte, atMs) : undefined;
    if (control !== undefined) return control;
    this.#block.push(byte);
    const size = blockBytes[this.#block[0] ?? 0];
    // Bytes that begin no block are discarded until a pause, which is answered with a NAK.
    return size !== undefined && this.#block.length === size + 5 ? this.#accept(atMs) : [];
  }

  /** The first end of file is requested again: it may be the number of a block whose beginning was lost. */
  #control(byte: number, atMs: number): readonly Said[] | undefined {
    this.#cancels = byte === 0x18 ? this.#cancels + 1 : 0;
    this.#ends = byte === 0x04 ? this.#ends + 1 : 0;
    if (this.#cancels >= 2) this.#leave();
    if (byte === 0x18) return [];
    if (byte !== 0x04) return undefined;
    return this.#ends >= 2 ? this.#finish(atMs) : this.#say(0x15, atMs);
  }

  #accept(atMs: number): readonly Said[] {
    const [, number = 0, complement = 0, ...rest] = this.#block;
    this.#block = [];
    if ((number ^ complement) !== 0xff || crc16(Uint8Array.from(rest)) !== 0) return this.#say(0x15, atMs);
    if (number === ((this.#expected - 1) & 0xff)) return this.#say(0x06, atMs);
    if (number !== (this.#expected & 0xff)) return this.#say(0x18, atMs);
    this.#blocksLeft -= 1;
    if (this.#blocksLeft < 0) this.dead = true;
    if (this.dead) return [];
    this.#received.push(...rest.slice(0, -2));
    this.#expected += 1;
    return this.#say(0x06, atMs);
  }

  #finish(atMs: number): readonly Said[] {
    if (this.#received.length === 0) return this.#say(0x15, atMs);
    this.memory = Uint8Array.from(this.#received.slice(0, this.#programs.new.byteLength));
    this.#leave();
    this.#state = 'receiving';
    return this.#say(0x06, atMs);
  }

  #leave(): void {
    this.#state = 'application';
    this.ran.push(programIn(this.memory, 'erased', this.#programs));
  }

  #say(byte: number, atMs: number): readonly Said[] {
    return [{ bytes: Uint8Array.of(byte), atMs: atMs + answerMs }];
  }
}
