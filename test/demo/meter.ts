import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';

import type { Image } from '../../src/mcu/images/image.ts';
import { readImage } from '../../src/mcu/images/read-image.ts';
import { buildHello, SimulatedAvr } from '../fakes/boards/avr/simulated-avr.ts';
import { writeIntelHex } from '../fakes/boards/write-intel-hex.ts';

/** In the middle of the application. */
const cutAddress = 0x200;
/** Packages for a simulated ATmega and its programs. */
const packages = 'gcc libc6-dev libsimavr-dev libelf-dev gcc-avr binutils-avr avr-libc';
const startsWithinMs = 1_500;
const pollMs = 20;

/** A simulated ATmega328P on a serial port of the gateway, with the real bootloader Optiboot. */
export class Meter implements AsyncDisposable {
  readonly #board: SimulatedAvr;
  readonly newProgram: Buffer;

  private constructor(board: SimulatedAvr, newProgram: Buffer) {
    this.#board = board;
    this.newProgram = newProgram;
  }

  /** Returns undefined, and reports the reason, if simavr or its tools are not installed. */
  static async plugIn(onMissing: (why: string) => void): Promise<Meter | undefined> {
    try {
      const [old, next] = [await program(1), await program(2)];
      const contents = Buffer.alloc(1024, 0xff);
      for (const { address, bytes } of old.segments) contents.set(bytes, address);
      const board = await SimulatedAvr.start({ bootloader: 'optiboot', contents });
      return new Meter(board, Buffer.from(writeIntelHex(next)));
    } catch (error) {
      const [why] = String(error).split('\n', 1);
      onMissing(`simavr, or what builds for it, is not installed (${why}). On Debian: apt install ${packages}`);
      return undefined;
    }
  }

  get toml(): string {
    return `[targets.meter]
kind = "mcu"
port = "${this.#board.port}"
protocol = "stk500v1"
baud = ${this.#board.baud}
reset = { command = ${JSON.stringify(this.#board.resetCommand)} }
bootloader_bytes = ${31 * 1024} # the application has one KiB: a backup is quick
`;
  }

  /** The application's output after a start. */
  async says(): Promise<string> {
    return (await this.#board.applicationSays(startsWithinMs)) || 'nothing';
  }

  /** Resolves when it has lost its power, which it does in the middle of the next flash. */
  async cutWhileFlashed(signal: AbortSignal): Promise<void> {
    await this.#board.tell(`die ${cutAddress}`);
    while (!(await this.#board.tell('stats')).endsWith('dead=1')) await delay(pollMs, undefined, { signal });
  }

  async power(): Promise<void> {
    await this.#board.tell('power');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#board[Symbol.asyncDispose]();
  }
}

async function program(version: number): Promise<Image> {
  return readImage(await readFile(await buildHello({ version, fillBytes: 600, bootloader: 'optiboot' })));
}
