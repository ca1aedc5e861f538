import { esp } from '../../../../../src/mcu/protocols/esp/esp.ts';
import { smp } from '../../../../../src/mcu/protocols/smp/smp.ts';
import { stk500v1 } from '../../../../../src/mcu/protocols/stk500v1.ts';
import { stk500v2 } from '../../../../../src/mcu/protocols/stk500v2.ts';
import { stm32 } from '../../../../../src/mcu/protocols/stm32/stm32.ts';
import { xmodem } from '../../../../../src/mcu/protocols/xmodem.ts';
import { OptibootModel, WiringModel } from '../../../../fakes/boards/models/avr-model.ts';
import { selectSecondSlot } from '../../../../fakes/boards/models/esp-bootloader.ts';
import { espApplication, espImage } from '../../../../fakes/boards/models/esp-image.ts';
import { EspModel } from '../../../../fakes/boards/models/esp-model.ts';
import { espTraits } from '../../../../fakes/boards/models/esp-traits.ts';
import { SmpModel } from '../../../../fakes/boards/models/smp/smp-model.ts';
import { Stm32Model } from '../../../../fakes/boards/models/stm32-model.ts';
import { XmodemModel } from '../../../../fakes/boards/models/xmodem-model.ts';
import { mcubootFile } from '../../images/build.ts';
import { noisyProgram, program } from '../fault-matrix.ts';
import type { Programs, Subject } from '../fault-matrix.ts';

/** The protocols with the boards that speak them. A name begins with the protocol. */
export const subjects: Readonly<Record<string, Subject>> = {
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
    programs: { old: espApplication(noisyProgram(9 * 1024, 1)), new: espApplication(noisyProgram(9 * 1024, 2)) },
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
