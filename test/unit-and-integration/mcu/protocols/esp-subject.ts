import { esp } from '../../../../src/mcu/protocols/esp/esp.ts';
import { espImage } from '../../../fakes/boards/models/esp-image.ts';
import { EspModel } from '../../../fakes/boards/models/esp-model.ts';
import { espTraits } from '../../../fakes/boards/models/esp-traits.ts';
import { program } from './fault-matrix.ts';
import type { Subject } from './fault-matrix.ts';

export const espSubject: Subject = {
  protocol: () => esp(),
  model: (programs) => new EspModel({ programs, traits: espTraits('esp32'), start: 0x1000 }),
  programs: { old: espImage(program(8 * 1024, 1)), new: espImage(program(8 * 1024, 2)) },
  start: 0x1000,
  baud: 115_200,
  mayBlankStart: true,
  obeysNoise: false,
};
