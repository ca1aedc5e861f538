import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { esp } from '../../../../src/mcu/protocols/esp/esp.ts';
import { smp } from '../../../../src/mcu/protocols/smp/smp.ts';
import { stk500v1 } from '../../../../src/mcu/protocols/stk500v1.ts';
import { stk500v2 } from '../../../../src/mcu/protocols/stk500v2.ts';
import { stm32 } from '../../../../src/mcu/protocols/stm32/stm32.ts';
import { xmodem } from '../../../../src/mcu/protocols/xmodem.ts';
import { OptibootModel, WiringModel } from '../../../fakes/boards/models/avr-model.ts';
import { selectSecondSlot } from '../../../fakes/boards/models/esp-bootloader.ts';
import { espImage } from '../../../fakes/boards/models/esp-image.ts';
import { EspModel } from '../../../fakes/boards/models/esp-model.ts';
import { espTraits } from '../../../fakes/boards/models/esp-traits.ts';
import { SmpModel } from '../../../fakes/boards/models/smp/smp-model.ts';
import { Stm32Model } from '../../../fakes/boards/models/stm32-model.ts';
import { XmodemModel } from '../../../fakes/boards/models/xmodem-model.ts';
import { howMuch } from '../../../full.ts';
import { mcubootFile } from '../images/build.ts';
import {
  acknowledgementsOf,
  cleanRun,
  noisyProgram,
  placesOf,
  printMatrix,
  program,
  sweepEcho,
  sweepFault,
  sweepLatency,
  sweepPowerLoss,
  sweepRead,
} from './fault-matrix.ts';
import type { Cell, CleanRun, Programs, Subject } from './fault-matrix.ts';

const subjects: Readonly<Record<string, Subject>> = {
  stk500v1: {
    protocol: () => stk500v1(),
    model: (programs) => new OptibootModel({ programs, pageBytes: 128 }),
    programs: { old: program(512, 1), new: program(512, 2) },
    start: 0,
    baud: 115_200,
    mayBlankStart: true,
    obeysNoise: true,
  },
  stk500v2: {
    protocol: () => stk500v2(),
    model: (programs) => new WiringModel({ programs, pageBytes: 256 }),
    programs: { old: program(1024, 1), new: program(1024, 2) },
    start: 0,
    baud: 115_200,
    mayBlankStart: true,
    obeysNoise: false,
  },
  stm32: {
    protocol: () => stm32(),
    model: (programs) => new Stm32Model({ programs, pageBytes: 1024, productId: 0x410 }),
    programs: { old: program(2048, 1), new: program(2048, 2) },
    start: 0x08000000,
    baud: 115_200,
    mayBlankStart: true,
    obeysNoise: false,
  },
  'stm32, with checksums': {
    protocol: () => stm32(),
    model: (programs) => new Stm32Model({ programs, pageBytes: 1024, productId: 0x410, checksumAcks: 2 }),
    programs: { old: program(3072, 1), new: program(3072, 2) },
    start: 0x08000000,
    baud: 115_200,
    mayBlankStart: true,
    obeysNoise: false,
    places: 12,
  },
  'esp, an ESP32 that takes a packet twice': {
    protocol: () => esp(),
    model: (programs) => new EspModel({ programs, traits: espTraits('esp32', {}, true), start: 0x1000 }),
    programs: espPrograms(9 * 1024),
    start: 0x1000,
    baud: 115_200,
    mayBlankStart: true,
    obeysNoise: false,
    places: 8,
  },
  'esp, an ESP32 that runs its other slot': {
    protocol: () => esp(),
    model: (programs) => {
      const model = new EspModel({ programs, traits: espTraits('esp32'), start: 0x10000 });
      selectSecondSlot(model.flash.bytes, programs.old);
      return model;
    },
    programs: espPrograms(9 * 1024),
    start: 0x10000,
    baud: 115_200,
    mayBlankStart: false,
    obeysNoise: false,
    places: 8,
  },
  'esp, an ESP32-C3 at 921,600 baud that refuses one': {
    protocol: () => esp({ baud: 921_600 }),
    model: (programs) => new EspModel({ programs, traits: espTraits('esp32c3'), start: 0 }),
    programs: espPrograms(9 * 1024, 5),
    start: 0,
    baud: 921_600,
    mayBlankStart: true,
    obeysNoise: false,
    places: 8,
  },
  'esp, an ESP8266': {
    protocol: () => esp(),
    model: (programs) => new EspModel({ programs, traits: espTraits('esp8266'), start: 0 }),
    programs: espPrograms(12 * 1024, 'esp8266'),
    start: 0,
    baud: 115_200,
    mayBlankStart: true,
    obeysNoise: false,
    places: 8,
  },
  ...Object.fromEntries(
    (['console', 'raw'] as const).map((framing) => [
      `smp, ${framing} framing`,
      {
        protocol: () => smp({ framing }),
        model: (programs) => new SmpModel({ programs, framing, bufferBytes: 256 }),
        programs: { old: mcubootFile(program(1500, 1)), new: mcubootFile(program(1500, 2)) },
        start: 0,
        baud: 115_200,
        mayBlankStart: false,
        obeysNoise: false,
      } satisfies Subject,
    ]),
  ),
  ...Object.fromEntries(
    (['swap', 'overwrite'] as const).map((mode) => [
      `smp, an application, ${mode}`,
      {
        protocol: () => smp({ confirm: true }),
        model: (programs) =>
          new SmpModel({ programs, framing: 'console', bufferBytes: 256, server: 'application', mode }),
        programs: { old: mcubootFile(program(1500, 1)), new: mcubootFile(program(1500, 2)) },
        start: 0,
        baud: 115_200,
        mayBlankStart: false,
        obeysNoise: false,
        places: 8,
      } satisfies Subject,
    ]),
  ),
  xmodem: {
    protocol: () => xmodem({ variant: 'xmodem' }),
    model: (programs) => new XmodemModel(programs),
    programs: { old: program(1024, 1), new: program(1024, 2) },
    start: 0,
    baud: 115_200,
    mayBlankStart: false,
    obeysNoise: false,
  },
};

function espPrograms(bytes: number, chip: number | 'esp8266' = 0): Programs {
  return { old: espImage(noisyProgram(bytes, 1), chip), new: espImage(noisyProgram(bytes, 2), chip) };
}

describe.each(Object.entries(subjects))('a flash over %s', (name, subject) => {
  const rows: [string, Cell][] = [];
  const places = Math.max(2, (subject.places ?? 32) / howMuch(1, 4, 8));
  let clean: CleanRun = { counts: { 'to-board': 0, 'to-host': 0 }, acknowledgements: [] };

  beforeAll(async () => {
    clean = await cleanRun(subject);
  });

  afterAll(() => printMatrix(name, rows));

  test.each(['drop', 'flip', 'insert', 'mute', 'garbage', 'late', 'replay'] as const)(
    'is finished in spite of a %s anywhere',
    async (kind) => {
      const cell = await sweepFault(subject, kind, placesOf(clean, places));
      rows.push([kind, cell]);
      expect([...cell.failed]).toEqual([]);
    },
  );

  test('is finished in spite of the loss of any acknowledgement', async () => {
    const cell = await sweepFault(subject, 'drop', acknowledgementsOf(clean, places));
    rows.push(['lost answer', cell]);
    expect([...cell.failed]).toEqual([]);
  });

  test('never runs a broken program when the adapter begins to echo anywhere', async () => {
    rows.push(['echo', await sweepEcho(subject, placesOf(clean, places / 2))]);
    expect(rows.length).toBeGreaterThan(0);
  });

  test('resumes after the port was unplugged anywhere', async () => {
    const cell = await sweepFault(subject, 'unplug', placesOf(clean, places / 2));
    rows.push(['unplug', cell]);
    expect([...cell.failed]).toEqual([]);
  });

  test.each([0, 1, 16])('is finished with a latency of %i ms', async (latencyMs) => {
    const cell = await sweepLatency(subject, latencyMs);
    rows.push([`latency ${latencyMs}`, cell]);
    expect(cell.flashed).toBe(1);
  });

  test('that loses power at any block leaves a board that never runs half a program and can be flashed', async () => {
    const cell = await sweepPowerLoss(subject);
    rows.push(['power loss', cell]);
    expect([...cell.failed.keys()]).toEqual(['board-timeout']);
  });
});

const readable = Object.entries(subjects).filter(([name]) => ['stk500v1', 'stk500v2', 'stm32'].includes(name));

describe.each(readable)('what a board holds, over %s', (_, subject) => {
  test.each(['late', 'replay'] as const)('is read right, or not at all, with answers that come %s', async (kind) => {
    const readings = howMuch(60, 20, 10);
    expect(await sweepRead(subject, kind, readings)).toBeLessThan(readings / 2);
  });
});
