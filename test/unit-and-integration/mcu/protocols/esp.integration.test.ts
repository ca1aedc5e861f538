import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, test } from 'vitest';

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
import type { EspName } from '../../../fakes/boards/models/esp-traits.ts';
import { EmulatedPort } from '../../../fakes/boards/serial/emulated-port.ts';
import { withBothLines } from '../../../fakes/boards/serial/modem-lines.ts';
import { howMuch } from '../../../full.ts';
import { folderUntilTestEnds } from '../../../until-test-ends.ts';
import { program } from './fault-matrix.ts';

const signal = new AbortController().signal;
const stranger = join(import.meta.dirname, '../../../fakes/boards/serial/esptool-js.ts');
const sizeBytes = 16 * 1024;
const programs = { old: program(sizeBytes, 1), new: program(sizeBytes, 2) };
const start = 0x1_0000;

function newModel(name: EspName): EspModel {
  return new EspModel({ traits: espTraits(name), programs, start });
}

function expectFlashed(model: EspModel): void {
  expect(model.ran.at(-1)).toBe('new');
  expect(model.violations).toEqual([]);
}

type Vouched = readonly [EspName, 'rom' | 'stub', number];
const first: readonly Vouched[] = [
  ['esp8266', 'rom', 115_200],
  ['esp32c3', 'rom', 921_600],
  ['esp32', 'stub', 921_600],
];
const more: readonly Vouched[] = [
  ['esp32', 'rom', 460_800],
  ['esp32s3', 'rom', 115_200],
  ['esp32c3', 'stub', 460_800],
];

describe.each(howMuch([...first, ...more], first))('the emulator of an %s', (name, loader, baud) => {
  test(`is flashed by esptool-js, through the ${loader}, at ${baud} baud, so it is known good`, async () => {
    const model = newModel(name);
    await using port = await EmulatedPort.start(model);
    const folder = folderUntilTestEnds();
    await writeFile(join(folder, 'image.bin'), programs.new);
    const { exitCode, stdout, stderr } = await runProgram(
      [process.execPath, stranger, port.port, `${baud}`, loader, join(folder, 'image.bin'), `${start}`],
      { timeoutMs: 60_000, env: await port.environment() },
      signal,
    );
    expect({ exitCode, stderr, rejected: model.rejected }).toEqual({ exitCode: 0, stderr: '', rejected: [] });
    expect(stdout).toMatch(/ESP\S+ flashed/);
    expectFlashed(model);
  });
});

test.each([
  ['esp32', 921_600],
  ['esp32c3', 460_800],
] as const)('the flasher brings the same image onto an %s over a real port at %i baud', async (name, baud) => {
  const model = newModel(name);
  await using port = await EmulatedPort.start(model);
  const board: Board = {
    name: 'board',
    protocol: esp({ baud }),
    baud,
    reset: 'dtr-rts',
    openLine: async (settings, lineSignal) =>
      withBothLines(await openSerialLine(port.port, settings, lineSignal), async (lines) => {
        model.modem(lines, performance.now());
      }),
    clock: systemClock,
    log: silentLog,
  };
  const image = makeImage('raw', [{ address: start, bytes: programs.new }]);
  const report = await flash({ image }, board, signal);
  expect(report).toMatchObject({ unitsWritten: 4, known: 'sent' });
  expectFlashed(model);
});
