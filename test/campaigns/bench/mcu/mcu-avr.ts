import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { flash } from '../../../../src/mcu/flash/flash.ts';
import { makeImage } from '../../../../src/mcu/images/image.ts';
import { stk500v1 } from '../../../../src/mcu/protocols/stk500v1.ts';
import { stk500v2 } from '../../../../src/mcu/protocols/stk500v2.ts';
import { silentLog } from '../../../../src/system/log/log.ts';
import { runProgram } from '../../../../src/system/processes/child-process.ts';
import { systemClock } from '../../../../src/system/time/clock.ts';
import { SimulatedAvr } from '../../../fakes/boards/avr/simulated-avr.ts';

/** Flash operations with the complete image, with another one, and with faults. */
export interface BoardRun {
  /** This share of the pages differs; all of them if not given. */
  readonly changed?: number;
  readonly lossEvery?: number;
  readonly latencyMs?: number;
  readonly limitMs?: number;
}

export interface AvrBench {
  readonly name: string;
  readonly chip: '328P' | '2560';
  readonly minimumSeconds: number;
  readonly ours: (run: BoardRun) => Promise<number>;
  /** NaN: it failed, or did not end within its limit. */
  readonly avrdude: (run: BoardRun) => Promise<number>;
}

const kinds = {
  optiboot: {
    name: '328P',
    protocol: stk500v1,
    pageBytes: 128,
    frameBytes: 26,
    avrdude: ['-c', 'arduino', '-p', 'm328p'],
  },
  stk500v2: {
    name: '2560',
    protocol: stk500v2,
    pageBytes: 256,
    frameBytes: 43,
    avrdude: ['-c', 'wiring', '-p', 'm2560'],
  },
} as const;

const pageMs = 4;
const characterMs = 10 / 115.2;
const longestMs = 300_000;

/**
 * A program that loops (`rjmp .`, which is a stack pointer of an STM32, too, with a reset vector behind it), followed by bytes that depend on the seed: the program must not write its memory
 * after it was flashed onto the simulated chip.
 */
export function contentsOf(sizeBytes: number, seed: number): Buffer {
  const bytes = Buffer.from(
    Array.from({ length: sizeBytes }, (_, index) => (index * 31 + (index >> 6) * 7 + seed * 89 + 5) & 0xff),
  );
  bytes.set([0xff, 0xcf, 0, 0x20, 0x11, 0, 0, 0x08]);
  return bytes;
}

/** Returns the chip's previous content: other bytes in this share of the units, at the end. */
export function contentsBefore(after: Buffer, unitBytes: number, changed = 1): Buffer {
  const before = Buffer.from(after);
  const units = Math.ceil(after.byteLength / unitBytes);
  for (let unit = units - Math.max(1, Math.round(units * changed)); unit < units; unit += 1) {
    const at = unit * unitBytes + 8;
    before[at] = ~(before[at] ?? 0);
  }
  return before;
}

export async function avrBench(bootloader: keyof typeof kinds, sizeBytes: number): Promise<AvrBench> {
  const { name, protocol, pageBytes, frameBytes, avrdude } = kinds[bootloader];
  const after = contentsOf(sizeBytes, 1);
  const pages = sizeBytes / pageBytes;
  const start = async ({ changed, lossEvery, latencyMs }: BoardRun): Promise<SimulatedAvr> => {
    const contents = contentsBefore(after, pageBytes, changed);
    const avr = await SimulatedAvr.start({ bootloader, pageMs, latencyMs: latencyMs ?? 0, contents });
    if (lossEvery !== undefined) await avr.tell(`drop ${lossEvery}`);
    return avr;
  };
  return {
    name: `${name}, ${sizeBytes / 1024} KiB`,
    chip: name,
    // Both ways through the wire, commands and answers of each page, and the writing of it; its erasing hides behind
    // the bytes that come.
    minimumSeconds: (pages * ((2 * pageBytes + frameBytes) * characterMs + pageMs)) / 1000,
    ours: async (run) => {
      await using avr = await start(run);
      const { baud, openLine } = avr;
      const board = {
        name,
        protocol: protocol(),
        baud,
        reset: 'dtr',
        openLine,
        clock: systemClock,
        log: silentLog,
      } as const;
      const image = makeImage('raw', [{ address: 0, bytes: after }]);
      const before = performance.now();
      await flash({ image }, board, AbortSignal.timeout(longestMs));
      return (performance.now() - before) / 1000;
    },
    avrdude: async (run) => {
      await using avr = await start(run);
      const folder = await mkdtemp(join(tmpdir(), 'avrdude-'));
      const file = join(folder, 'image.bin');
      await writeFile(file, after);
      const options = ['-q', '-q', '-D', '-b', `${avr.baud}`, '-P', avr.port, '-U', `flash:w:${file}:r`];
      const before = performance.now();
      try {
        const command = ['avrdude', ...avrdude, ...options] as const;
        const { exitCode } = await runProgram(
          command,
          { timeoutMs: run.limitMs ?? longestMs },
          AbortSignal.timeout(longestMs),
        );
        return exitCode === 0 ? (performance.now() - before) / 1000 : NaN;
      } catch (error) {
        if (run.limitMs !== undefined) return NaN;
        throw error;
      } finally {
        await rm(folder, { recursive: true });
      }
    },
  };
}
