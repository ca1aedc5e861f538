import { readFile } from 'node:fs/promises';

import { readImage } from '../../../src/mcu/images/read-image.ts';
import { buildHello } from '../../fakes/boards/avr/simulated-avr.ts';
import type { SimulatedAvr } from '../../fakes/boards/avr/simulated-avr.ts';
import { intelHex } from './images/build.ts';

const meterBytes = 1_024;

/** The application of the meter, which prints `hello VERSION`, as a HEX file and as the chip's memory. */
async function meterProgram(version: number): Promise<{ readonly hex: Buffer; readonly memory: Buffer }> {
  const elf = await readFile(await buildHello({ version, fillBytes: 600, bootloader: 'optiboot' }));
  const { segments } = readImage(elf);
  const memory = Buffer.alloc(meterBytes, 0xff);
  for (const { address, bytes } of segments) memory.set(bytes, address);
  return { hex: Buffer.from(intelHex(segments)), memory };
}

export const meters = { old: await meterProgram(1), new: await meterProgram(2) };

/** The meter as a target, and a relay at whose port nothing is. */
export function boardsToml({ port, baud, resetCommand }: SimulatedAvr): string {
  const board = (name: string, place: string): string => `[targets.${name}]
kind = "mcu"
port = "${place}"
protocol = "stk500v1"
baud = ${baud}
reset = { command = ${JSON.stringify(resetCommand)} }
bootloader_bytes = ${31 * 1024}
`;
  return `${board('meter', port)}\n${board('relay', `${port}-relay`)}`;
}

export async function programOf(meter: SimulatedAvr): Promise<'old' | 'new' | 'neither'> {
  const memory = (await meter.flashMemory()).subarray(0, meterBytes);
  if (memory.equals(meters.old.memory)) return 'old';
  return memory.equals(meters.new.memory) ? 'new' : 'neither';
}
