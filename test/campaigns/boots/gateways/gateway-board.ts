import { readFileSync } from 'node:fs';

import { SimulatedAvr } from '../../../fakes/boards/avr/simulated-avr.ts';
import type { AvrOptions } from '../../../fakes/boards/avr/simulated-avr.ts';
import type { Recording } from '../disk/recording.ts';

/** A program has less. */
export const PROGRAM_BYTES = 1024;
const FLASH_BYTES = 32 * 1024;
/** Optiboot takes half a KiB. The agent backs up the memory before it: one KiB is a sufficient sample. */
const BEYOND_PROGRAM_BYTES = FLASH_BYTES - PROGRAM_BYTES;

/** Returns the board's part of a gateway's configuration. Its reset is the port's. */
export function boardToml(port: string): string {
  return `[targets.meter]
kind = "mcu"
port = "${port}"
protocol = "stk500v1"
bootloader_bytes = ${BEYOND_PROGRAM_BYTES}
`;
}

/** How a gateway comes to its board. */
export interface BoardWiring {
  /** The configuration with this machine's port, which has no modem lines. */
  readonly toml: string;
  readonly port: string;
  /** Gives an emulator modem lines on it. */
  readonly environment: Readonly<Record<string, string>>;
}

/** The board on a serial port of the gateway: an ATmega328P with the real Optiboot, in simavr. */
export class GatewayBoard implements AsyncDisposable {
  readonly #avr: SimulatedAvr;

  private constructor(avr: SimulatedAvr) {
    this.#avr = avr;
  }

  static async start(options: Omit<AvrOptions, 'bootloader'>): Promise<GatewayBoard> {
    return new GatewayBoard(await SimulatedAvr.start({ bootloader: 'optiboot', ...options }));
  }

  async wiring(): Promise<BoardWiring> {
    const { port, resetCommand } = this.#avr;
    const toml = `${boardToml(port)}reset = { command = ${JSON.stringify(resetCommand)} }\n`;
    return { toml, port, environment: await this.#avr.environment() };
  }

  async holds(program: string): Promise<boolean> {
    return (await this.#avr.flashMemory()).subarray(0, PROGRAM_BYTES).equals(readFileSync(program));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#avr[Symbol.asyncDispose]();
  }
}

/** Returns the flash memory of the board at this position in the history, or undefined without a board. */
export function boardMemoryAt({ boards, boardWrites }: Recording, position: number): Buffer | undefined {
  const [factory] = Object.values(boards);
  if (factory === undefined) return undefined;
  const memory = Buffer.alloc(FLASH_BYTES, 0xff);
  memory.set(readFileSync(factory));
  for (const { at, address, bytes } of boardWrites) if (at <= position) memory.set(bytes, address);
  return memory;
}

/** Returns the version whose program the board has at this position in the history, or undefined without a board. */
export function boardProgramAt(recording: Recording, position: number): string | undefined {
  const memory = boardMemoryAt(recording, position)?.subarray(0, PROGRAM_BYTES);
  if (memory === undefined) return undefined;
  const found = Object.entries(recording.boards).find(([, program]) => memory.equals(readFileSync(program)));
  return found?.[0] ?? 'a part';
}
