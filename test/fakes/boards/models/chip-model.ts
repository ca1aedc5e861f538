import { programIn } from './board-model.ts';
import type { BoardModel, Ran, Said } from './board-model.ts';

/** A bootloader's program: takes one byte per `yield`. */
export type Program = Generator<void, never, number>;

export interface ChipOptions {
  readonly programs: Readonly<Record<'old' | 'new', Uint8Array>>;
  readonly pageBytes: number;
}

interface ChipTraits {
  /** The bootloader starts the application after this time without input. */
  readonly timeoutMs: number;
  readonly eraseMs: number;
  readonly writeMs: number;
  readonly parked: Uint8Array | 'erased';
  /** Bytes that the UART buffers while they are not read. Default: 2, the complete one and the one in progress. */
  readonly fifoBytes?: number;
}

const characterMs = 10 / 115.2;
const defaultFifoBytes = 2;

/** Common parts of chips with a bootloader: UART, flash memory, power, and the start of the application. */
export abstract class ChipModel implements BoardModel {
  readonly resetsWhenDtr: BoardModel['resetsWhenDtr'] = 'asserted';
  readonly memory: Uint8Array;
  readonly ran: Ran[] = [];
  readonly violations: string[] = [];
  overruns = 0;
  dead = false;
  protected readonly pageBytes: number;
  readonly #programs: ChipOptions['programs'];
  readonly #traits: ChipTraits;
  #program: Program | undefined;
  #said: Said[] = [];
  #nowMs = 0;
  #busyUntilMs = 0;
  #waiting = 0;
  #erasedMs = 0;
  #lastByteMs = 0;
  #writesLeft = Number.POSITIVE_INFINITY;
  #torn = false;

  constructor({ programs, pageBytes }: ChipOptions, traits: ChipTraits) {
    this.#programs = programs;
    this.pageBytes = pageBytes;
    this.#traits = traits;
    this.memory = Uint8Array.from(programs.old);
  }

  protected abstract bootloader(): Program;

  receive(byte: number, atMs: number): readonly Said[] {
    if (this.dead) return [];
    if (this.#program !== undefined && atMs - this.#lastByteMs > this.#traits.timeoutMs) this.leave();
    this.#lastByteMs = atMs;
    if (this.#program === undefined) return [];
    this.#waiting = atMs < this.#busyUntilMs ? this.#waiting + 1 : 0;
    if (this.#waiting > (this.#traits.fifoBytes ?? defaultFifoBytes)) {
      this.overruns += 1;
      return [];
    }
    this.#nowMs = Math.max(atMs, this.#busyUntilMs);
    this.#said = [];
    this.#program.next(byte);
    return this.#said;
  }

  reset(atMs: number): void {
    if (this.dead) return;
    this.#busyUntilMs = 0;
    this.#waiting = 0;
    this.#lastByteMs = atMs;
    this.#program = this.bootloader();
    this.#program.next(0);
  }

  power(atMs: number): void {
    this.dead = false;
    this.#writesLeft = Number.POSITIVE_INFINITY;
    this.reset(atMs);
    this.leave();
  }

  dieAtWrite(writes: number, torn: boolean): void {
    this.#writesLeft = writes;
    this.#torn = torn;
  }

  protected say(...bytes: readonly number[]): void {
    this.#said.push({ bytes: Uint8Array.from(bytes), atMs: this.#nowMs });
    this.work(bytes.length * characterMs);
  }

  /** The CPU keeps running; a write waits for the end of the erasure. */
  protected erase(address: number): void {
    if (this.dead) return;
    this.memory.fill(0xff, address, address + this.pageBytes);
    this.#erasedMs = Math.max(this.#nowMs, this.#erasedMs) + this.#traits.eraseMs;
  }

  protected write(address: number, bytes: readonly number[]): void {
    if (this.dead) return;
    this.#writesLeft -= 1;
    if (this.#writesLeft < 0) this.dead = true;
    if (this.dead && this.#torn) return;
    for (const [index, byte] of bytes.entries()) {
      const at = address + index;
      if (at < this.memory.byteLength) this.memory[at] = (this.memory[at] ?? 0) & byte;
    }
    this.work(Math.max(0, this.#erasedMs - this.#nowMs) + this.#traits.writeMs);
  }

  /** The CPU waits for the end of an erase. */
  protected finishErase(): void {
    this.work(Math.max(0, this.#erasedMs - this.#nowMs));
  }

  /** Starts the application. */
  protected leave(): void {
    this.#program = undefined;
    this.ran.push(programIn(this.memory, this.#traits.parked, this.#programs));
  }

  protected work(ms: number): void {
    this.#nowMs += ms;
    this.#busyUntilMs = this.#nowMs;
  }
}
