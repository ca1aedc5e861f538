import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deflateSync } from 'node:zlib';

import type { Board } from '../../../../src/mcu/connection.ts';
import { flash } from '../../../../src/mcu/flash/flash.ts';
import { makeImage } from '../../../../src/mcu/images/image.ts';
import { esp } from '../../../../src/mcu/protocols/esp/esp.ts';
import { openSerialLine } from '../../../../src/serial/serial-line.ts';
import { silentLog } from '../../../../src/system/log/log.ts';
import { runProgram } from '../../../../src/system/processes/child-process.ts';
import { systemClock } from '../../../../src/system/time/clock.ts';
import { EspModel } from '../../../fakes/boards/models/esp-model.ts';
import { espTraits } from '../../../fakes/boards/models/esp-traits.ts';
import { EmulatedPort } from '../../../fakes/boards/serial/emulated-port.ts';
import { withBothLines } from '../../../fakes/boards/serial/modem-lines.ts';
import { contentsBefore } from './mcu-avr.ts';
import type { BoardRun } from './mcu-avr.ts';
import { toolSeconds } from './mcu-tool.ts';

export interface EspBench {
  readonly name: string;
  readonly chip: 'ESP32';
  readonly minimumSeconds: number;
  readonly ours: (run: BoardRun) => Promise<number>;
  /** With its stub. NaN: it failed, each time, or did not end within its limit. */
  readonly esptoolJs: (run: BoardRun, tell: (line: string) => void) => Promise<number>;
}

export const espBaud = 921_600;
export const espStart = 0x1_0000;
export const espFlashBytes = 4 * 1024 * 1024;
const sectorBytes = 4096;
const blockBytes = 64 * 1024;
const packetBytes = 1024;
/** A packet, its head and its answer. */
const frameBytes = 2 + 24 + 14;
/** Times of the model: erasing a block of 64 KiB, programming a page of 256 bytes, digesting a byte. */
const [eraseMs, programMs, digestMs] = [150, 0.4, 500 / (1024 * 1024)];
const longestMs = 300_000;
const stranger = join(import.meta.dirname, '../../../fakes/boards/serial/esptool-js.ts');

/** As firmware does, it deflates to a little more than half. */
export function espContents(sizeBytes: number): Buffer {
  let noise = 1;
  const bytes = Array.from({ length: sizeBytes }, () => {
    noise = (Math.imul(noise, 1_103_515_245) + 12_345) & 0x7fffffff;
    return (noise >> 16) & 0x17;
  });
  return Buffer.from(bytes);
}

export function espBefore(after: Buffer, { changed }: BoardRun): Buffer {
  return contentsBefore(after, sectorBytes, changed);
}

/** An emulated ESP32 behind a pty, in real time. */
export function espBench(sizeBytes: number): EspBench {
  const after = espContents(sizeBytes);
  const deflated = deflateSync(after, { level: 9 }).byteLength;
  const wireMs = ((deflated + (deflated / packetBytes) * frameBytes) * 10_000) / espBaud;
  const chipMs = (sizeBytes / blockBytes) * eraseMs + (sizeBytes / 256) * programMs + sizeBytes * digestMs;
  const boardBefore = (run: BoardRun): EspModel =>
    new EspModel({
      traits: espTraits('esp32'),
      programs: { old: espBefore(after, run), new: after },
      start: espStart,
      flashBytes: espFlashBytes,
    });
  return {
    name: `ESP32, ${sizeBytes / 1024} KiB`,
    chip: 'ESP32',
    minimumSeconds: (wireMs + chipMs) / 1000,
    ours: async (run) => {
      const model = boardBefore(run);
      await using port = await EmulatedPort.start(model, run);
      const board: Board = {
        name: 'esp32',
        protocol: esp({ baud: espBaud }),
        baud: espBaud,
        reset: 'dtr-rts',
        openLine: async (settings, signal) =>
          withBothLines(await openSerialLine(port.port, settings, signal), async (lines) => {
            model.modem(lines, performance.now());
          }),
        clock: systemClock,
        log: silentLog,
      };
      const image = makeImage('raw', [{ address: espStart, bytes: after }]);
      const before = performance.now();
      await flash({ image }, board, AbortSignal.timeout(longestMs));
      return (performance.now() - before) / 1000;
    },
    esptoolJs: async (run, tell) =>
      toolSeconds({
        name: 'esptool-js',
        tell,
        attempt: async () => esptoolJs(boardBefore(run), after, run, tell),
        ...(run.lossEvery === undefined ? {} : { tries: 1 }),
      }),
  };
}

/** Returns undefined after a failure that it reported. Its own time, without the start of its runtime. */
async function esptoolJs(
  model: EspModel,
  image: Uint8Array,
  run: BoardRun,
  tell: (line: string) => void,
): Promise<number | undefined> {
  await using port = await EmulatedPort.start(model, run);
  const folder = await mkdtemp(join(tmpdir(), 'esptool-js-'));
  try {
    const file = join(folder, 'image.bin');
    await writeFile(file, image);
    const { exitCode, stdout, stderr } = await runProgram(
      [process.execPath, stranger, port.port, `${espBaud}`, 'stub', file, `${espStart}`],
      { timeoutMs: run.limitMs ?? longestMs, env: await port.environment() },
      AbortSignal.timeout(longestMs),
    );
    const seconds = /flashed in ([\d.]+) s/.exec(stdout)?.[1];
    if (exitCode === 0 && seconds !== undefined) return Number(seconds);
    tell(`esptool-js: ${/^\w*Error: .*/m.exec(stderr)?.[0] ?? 'no result'}`);
    return undefined;
  } finally {
    await rm(folder, { recursive: true });
  }
}
