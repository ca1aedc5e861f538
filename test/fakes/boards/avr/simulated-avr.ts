import { spawn } from 'node:child_process';
import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { chmod, chown, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { hex } from '../../../../src/mcu/errors.ts';
import type { OpenLine } from '../../../../src/serial/line.ts';
import { openSerialLine } from '../../../../src/serial/serial-line.ts';
import { built } from '../build.ts';
import { modemLines, withModemLines } from '../serial/modem-lines.ts';

const here = import.meta.dirname;
const bootloaders = '/usr/share/arduino/hardware/arduino/avr/bootloaders';

export type Bootloader = 'optiboot' | 'atmegaboot' | 'stk500v2' | 'optiboot-644p' | 'atmegaboot-1280';

interface Model {
  readonly mcu: string;
  readonly baud: number;
  readonly hex: () => Promise<string>;
  /** It has the deadlines of a watchdog and does not count polls of the UART. */
  readonly hasWatchdog?: boolean;
}

const models: Readonly<Record<Bootloader, Model>> = {
  optiboot: {
    mcu: 'atmega328p',
    baud: 115_200,
    hex: async () => buildOptiboot('atmega328p', 0x7e00),
    hasWatchdog: true,
  },
  'optiboot-644p': {
    mcu: 'atmega644p',
    baud: 115_200,
    hex: async () => buildOptiboot('atmega644p', 0xfc00),
    hasWatchdog: true,
  },
  atmegaboot: {
    mcu: 'atmega328p',
    baud: 57_600,
    hex: async () => buildAtmegaboot('atmega328p', 0x7800, 1),
  },
  'atmegaboot-1280': {
    mcu: 'atmega1280',
    baud: 57_600,
    hex: async () => buildAtmegaboot('atmega1280', 0x1_f000, 0),
  },
  stk500v2: {
    mcu: 'atmega2560',
    baud: 115_200,
    hex: async () => join(bootloaders, 'stk500v2/stk500boot_v2_mega2560.hex'),
  },
};

export interface AvrOptions {
  readonly bootloader: Bootloader;
  readonly pageMs?: number;
  readonly latencyMs?: number;
  /** Initial content of the flash memory. Default: blank. */
  readonly contents?: Uint8Array;
  /** Has the logs of a gateway's disk; each page that changes is noted there, too, with its place in them. */
  readonly notesFolder?: string | undefined;
  /** The high fuse byte, for bootloaders that read it. Default: 0xd8, for the largest boot section. */
  readonly highFuse?: number;
  /** Factor by which it runs slower than real time, for a slow host. */
  readonly slowness?: number;
  /** Owner of the port, who may reset the board. Default: the user of the test. */
  readonly user?: number;
}

/** An AVR with its real bootloader, in simavr, on a pty whose DTR resets it. */
export class SimulatedAvr implements AsyncDisposable {
  readonly port: string;
  readonly baud: number;
  readonly #folder: string;
  readonly #child: ChildProcessWithoutNullStreams;
  #answers: string[] = [];
  #text = '';
  #wake: (() => void) | undefined;

  private constructor(folder: string, baud: number, child: ChildProcessWithoutNullStreams) {
    this.#folder = folder;
    this.#child = child;
    this.port = join(folder, 'port');
    this.baud = baud;
    child.stdout.on('data', (chunk: Buffer) => this.#hear(chunk));
    child.stderr.on('data', () => {});
    child.on('close', () => this.#wake?.());
    child.stdin.on('error', () => {});
  }

  static async start({
    bootloader,
    pageMs = 4,
    latencyMs = 0,
    contents,
    notesFolder,
    slowness = 1,
    highFuse,
    user,
  }: AvrOptions): Promise<SimulatedAvr> {
    const model = models[bootloader];
    const folder = await mkdtemp(join(tmpdir(), 'avr-'));
    const options = ['-m', model.mcu, '-b', await model.hex(), '-l', join(folder, 'port'), '-p', `${pageMs}`, '-o'];
    options.push('-c', join(folder, 'control'), '-s', `${slowness}`);
    if (contents !== undefined) {
      await writeFile(join(folder, 'contents.bin'), contents);
      options.push('-i', join(folder, 'contents.bin'));
    }
    if (model.hasWatchdog === true && slowness === 1) options.push('-q');
    if (highFuse !== undefined) options.push('-h', `${highFuse}`);
    if (notesFolder !== undefined) options.push('-w', notesFolder);
    if (user !== undefined) {
      await chown(folder, user, user);
      await chmod(folder, 0o755);
    }
    const child = spawn(await buildSimboot(), [...options, '-u', `${latencyMs}`], { uid: user });
    const board = new SimulatedAvr(folder, model.baud, child);
    await board.#answer();
    return board;
  }

  /** Gives a program modem lines on this port. */
  async environment(): Promise<Record<string, string>> {
    return modemLines(this.port, join(this.#folder, 'control'));
  }

  /** For hosts whose port has no modem lines. */
  get resetCommand(): readonly [string, ...string[]] {
    return ['sh', '-c', `kill -USR1 ${this.#child.pid}`];
  }

  /** Opens the port as the agent does, with DTR wired to the reset of the chip. */
  readonly openLine: OpenLine = async (settings, signal) => {
    const line = await openSerialLine(this.port, settings, signal);
    return withModemLines(line, 'asserted', async () => {
      await this.tell('reset');
    });
  };

  /** A command of simboot; resolves with its answer. */
  async tell(command: string): Promise<string> {
    this.#child.stdin.write(`${command}\n`);
    return this.#answer();
  }

  async flashMemory(): Promise<Buffer> {
    const path = join(this.#folder, 'flash.bin');
    await this.tell(`dump ${path}`);
    return readFile(path);
  }

  /** Returns the first line that the application prints after a start, or an empty text. */
  async applicationSays(withinMs: number, baud = this.baud): Promise<string> {
    const signal = AbortSignal.timeout(30_000);
    await using line = await openSerialLine(this.port, { baud, parity: 'none' }, signal);
    await this.tell('power');
    let text = '';
    for (const endMs = performance.now() + withinMs; performance.now() < endMs;) {
      text += Buffer.from(await line.read(endMs - performance.now(), signal)).toString('latin1');
      const said = /(hello \d|broken)\n/.exec(text);
      if (said?.[1] !== undefined) return said[1];
    }
    return '';
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      const ended = new Promise((resolve) => this.#child.once('close', resolve));
      this.#child.kill('SIGKILL');
      await ended;
    }
    await rm(this.#folder, { recursive: true, force: true });
  }

  #hear(chunk: Buffer): void {
    const lines = (this.#text + chunk.toString()).split('\n');
    this.#text = lines.pop() ?? '';
    this.#answers.push(...lines);
    this.#wake?.();
  }

  async #answer(): Promise<string> {
    for (;;) {
      const answer = this.#answers.shift();
      if (answer !== undefined) return answer;
      if (this.#child.exitCode !== null) throw new Error('simboot has ended');
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

export interface Hello {
  readonly version: number;
  readonly fillBytes: number;
  readonly bootloader: Bootloader;
}

/** Builds an application that prints `hello VERSION`, as an ELF file. */
export async function buildHello({ version, fillBytes, bootloader }: Hello): Promise<string> {
  const { mcu, baud } = models[bootloader];
  const defines = `-DVERSION=${version} -DFILL=${fillBytes} -DBAUD=${baud}`;
  const name = `hello-${bootloader}-${version}-${fillBytes}.elf`;
  return built(name, [join(here, 'hello.c')], `avr-gcc -Os -mmcu=${mcu} ${defines} ${join(here, 'hello.c')} -o`);
}

async function buildSimboot(): Promise<string> {
  return built(
    'simboot',
    [join(here, 'simboot.c')],
    `gcc -O2 -Wall ${join(here, 'simboot.c')} -I/usr/include/simavr -lsimavr -lelf -o`,
  );
}

/** Builds it like the Makefile in the same package. Debian 13's prebuilt ones contain the program of the ATmega328P for each chip. */
async function buildAtmegaboot(mcu: string, start: number, flashes: number): Promise<string> {
  const source = join(bootloaders, 'atmega/ATmegaBOOT_168.c');
  const defines = `-DF_CPU=16000000L -DBAUD_RATE=57600 -DMAX_TIME_COUNT=F_CPU>>4 -DNUM_LED_FLASHES=${flashes}`;
  const compile = `avr-gcc -Os -mmcu=${mcu} ${defines} -Wl,--section-start=.text=${hex(start)} ${source} -o`;
  const elf = await built(`atmegaboot-${mcu}.elf`, [source], compile);
  return built(`atmegaboot-${mcu}.hex`, [elf], `avr-objcopy -j .text -j .data -O ihex ${elf}`);
}

/**
 * Debian's prebuilt optiboot_atmega328.hex is longer than its boot section and can never start an application; without
 * the LED flashes it fits. Built from the source in the same package.
 */
async function buildOptiboot(mcu: string, start: number): Promise<string> {
  const source = join(bootloaders, 'optiboot');
  const small = '-Os -fno-inline-small-functions -fno-split-wide-types -mshort-calls -nostartfiles -Wl,--relax';
  const version = start < 0x8000 ? start + 0x1fe : start + 0x3fe;
  const place = `-Wl,--section-start=.text=${hex(start)} -Wl,--section-start=.version=${hex(version)}`;
  const defines = `-mmcu=${mcu} -DF_CPU=16000000L -DBAUD_RATE=115200 -DLED_START_FLASHES=0`;
  const elf = await built(
    `optiboot-${mcu}.elf`,
    [`${source}/optiboot.c`],
    `avr-gcc ${small} ${place} ${defines} -I${source} ${source}/optiboot.c -o`,
  );
  const sections = '-j .text -j .data -j .version --set-section-flags .version=alloc,load';
  return built(`optiboot-${mcu}.hex`, [elf], `avr-objcopy ${sections} -O ihex ${elf}`);
}
