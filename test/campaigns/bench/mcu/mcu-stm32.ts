import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { Board } from '../../../../src/mcu/connection.ts';
import { flash } from '../../../../src/mcu/flash/flash.ts';
import { makeImage } from '../../../../src/mcu/images/image.ts';
import { stm32 } from '../../../../src/mcu/protocols/stm32/stm32.ts';
import { openSerialLine } from '../../../../src/serial/serial-line.ts';
import { silentLog } from '../../../../src/system/log/log.ts';
import { runProgram } from '../../../../src/system/processes/child-process.ts';
import { systemClock } from '../../../../src/system/time/clock.ts';
import { Stm32Model } from '../../../fakes/boards/models/stm32-model.ts';
import { EmulatedPort } from '../../../fakes/boards/serial/emulated-port.ts';
import { withModemLines } from '../../../fakes/boards/serial/modem-lines.ts';
import { contentsBefore, contentsOf } from './mcu-avr.ts';
import type { BoardRun } from './mcu-avr.ts';
import { toolSeconds } from './mcu-tool.ts';

export interface Stm32Bench {
  readonly name: string;
  readonly chip: 'STM32';
  readonly minimumSeconds: number;
  readonly ours: (run: BoardRun) => Promise<number>;
  /** NaN: it failed, each time. */
  readonly stm32flash: (run: BoardRun, tell: (line: string) => void) => Promise<number>;
}

const pageBytes = 1024;
const blockBytes = 256;
const baud = 115_200;
const characterMs = 11_000 / baud;
/** AN3155: command, address and acknowledgements of one write and one read. */
const frameBytes = 24;
/** Times of the model: erasing a page, programming a block. */
const [eraseMs, programMs] = [25, 10];
const start = 0x0800_0000;
const longestMs = 300_000;

/** An emulated STM32F103 behind a pty, in real time. */
export function stm32Bench(sizeBytes: number): Stm32Bench {
  const after = contentsOf(sizeBytes, 1);
  const blocks = sizeBytes / blockBytes;
  const boardBefore = ({ changed }: BoardRun): Stm32Model => {
    const old = contentsBefore(after, pageBytes, changed);
    const model = new Stm32Model({ programs: { old, new: after }, pageBytes, productId: 0x410 });
    model.reset(0);
    return model;
  };
  return {
    name: `STM32, ${sizeBytes / 1024} KiB`,
    chip: 'STM32',
    minimumSeconds:
      (blocks * ((2 * blockBytes + frameBytes) * characterMs + programMs) + (sizeBytes / pageBytes) * eraseMs) / 1000,
    ours: async (run) => {
      const model = boardBefore(run);
      const emulated = { receive: (byte: number, atMs: number) => model.receive(byte, atMs) };
      await using port = await EmulatedPort.start(emulated, { latencyMs: run.latencyMs, parity: 'even' });
      const board: Board = {
        name: 'stm32',
        protocol: stm32({ flashBytes: sizeBytes }),
        baud,
        reset: 'dtr',
        openLine: async (settings, signal) =>
          withModemLines(await openSerialLine(port.port, settings, signal), 'released', async () => {
            model.reset(performance.now());
          }),
        clock: systemClock,
        log: silentLog,
      };
      const image = makeImage('raw', [{ address: start, bytes: after }]);
      const before = performance.now();
      await flash({ image }, board, AbortSignal.timeout(longestMs));
      return (performance.now() - before) / 1000;
    },
    stm32flash: async (run, tell) =>
      toolSeconds({ name: 'stm32flash', tell, attempt: async () => stm32flash(boardBefore(run), after, run, tell) }),
  };
}

/** Returns undefined after a failure that it reported. */
async function stm32flash(
  model: Stm32Model,
  image: Uint8Array,
  { latencyMs }: BoardRun,
  tell: (line: string) => void,
): Promise<number | undefined> {
  const settings = (_: number, parity: string): void => {
    model.parity = parity === 'E' ? 'even' : 'none';
  };
  const receive = (byte: number, atMs: number): ReturnType<Stm32Model['receive']> => model.receive(byte, atMs);
  await using port = await EmulatedPort.start({ receive, settings }, { latencyMs });
  const folder = await mkdtemp(join(tmpdir(), 'stm32flash-'));
  try {
    const file = join(folder, 'image.bin');
    await writeFile(file, image);
    const options = { timeoutMs: longestMs, env: await port.environment() };
    const before = performance.now();
    const command = ['stm32flash', '-b', `${baud}`, '-w', file, '-v', '-g', '0x08000000', port.port] as const;
    const { exitCode, stderr } = await runProgram(command, options, AbortSignal.timeout(longestMs));
    if (exitCode === 0) return (performance.now() - before) / 1000;
    tell(`stm32flash: ${stderr.trim().split('\n').at(-1) ?? ''}`);
    return undefined;
  } finally {
    await rm(folder, { recursive: true });
  }
}
