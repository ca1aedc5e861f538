import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, test } from 'vitest';

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
import type { EmulatedBoard } from '../../../fakes/boards/serial/emulated-port.ts';
import { withModemLines } from '../../../fakes/boards/serial/modem-lines.ts';
import { folderUntilTestEnds } from '../../../until-test-ends.ts';
import { program } from './fault-matrix.ts';

const programs = { old: program(6 * 1024, 1), new: program(6 * 1024, 2) };
const start = 0x08000000;
const maxStrangerTries = 6;
const signal = new AbortController().signal;

function newModel(): Stm32Model {
  return new Stm32Model({ programs, pageBytes: 1024, productId: 0x410 });
}

/** The model as the stranger sees it: parity from the port, reset by hand. */
function emulated(model: Stm32Model): EmulatedBoard {
  return {
    receive: (byte, atMs) => model.receive(byte, atMs),
    settings: (_, parity) => {
      model.parity = parity === 'E' ? 'even' : 'none';
    },
  };
}

/** One run of stm32flash against a fresh emulator. */
async function runStm32flash(image: string): Promise<{ readonly stdout: string; readonly model: Stm32Model }> {
  const model = newModel();
  model.reset(0);
  await using port = await EmulatedPort.start(emulated(model));
  const { stdout } = await runProgram(
    ['stm32flash', '-b', '115200', '-w', image, '-v', '-g', '0x08000000', port.port],
    { timeoutMs: 60_000, env: await port.environment() },
    signal,
  );
  return { stdout, model };
}

test('stm32flash flashes and verifies the emulator at 8E1, so the emulator is known good', async () => {
  const folder = folderUntilTestEnds();
  const image = join(folder, 'image.bin');
  await writeFile(image, programs.new);
  let { stdout, model } = await runStm32flash(image);
  // It stops at the first acknowledgement that a busy machine delays.
  for (let tries = 1; tries < maxStrangerTries && !stdout.includes('Done'); tries += 1) {
    ({ stdout, model } = await runStm32flash(image));
  }
  expect(stdout).toMatch(/0x0410[\s\S]*Done/);
  expect(model.violations).toEqual([]);
  expect(model.overruns).toBe(0);
  expect(model.ran).toEqual(['new']);
});

test('the flasher brings the same image onto the same emulator over a real port', async () => {
  const model = newModel();
  await using port = await EmulatedPort.start({ receive: (byte, atMs) => model.receive(byte, atMs) });
  const board: Board = {
    name: 'board',
    protocol: stm32(),
    baud: 115_200,
    reset: 'dtr',
    openLine: async (settings, lineSignal) => {
      expect(settings.parity).toBe('even');
      return withModemLines(await openSerialLine(port.port, settings, lineSignal), 'released', async () => {
        model.reset(performance.now());
      });
    },
    clock: systemClock,
    log: silentLog,
  };
  const image = makeImage('raw', [{ address: start, bytes: programs.new }]);
  const report = await flash({ image }, board, signal);
  expect(report).toMatchObject({ unitsWritten: 6, known: 'read-back' });
  expect(model.violations).toEqual([]);
  expect(model.ran).toEqual(['new']);
});
