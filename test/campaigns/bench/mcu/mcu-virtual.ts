import { flash } from '../../../../src/mcu/flash/flash.ts';
import { makeImage } from '../../../../src/mcu/images/image.ts';
import type { Protocol } from '../../../../src/mcu/protocol.ts';
import { esp } from '../../../../src/mcu/protocols/esp/esp.ts';
import { stk500v1 } from '../../../../src/mcu/protocols/stk500v1.ts';
import { stk500v2 } from '../../../../src/mcu/protocols/stk500v2.ts';
import { stm32 } from '../../../../src/mcu/protocols/stm32/stm32.ts';
import { silentLog } from '../../../../src/system/log/log.ts';
import { OptibootModel, WiringModel } from '../../../fakes/boards/models/avr-model.ts';
import type { BoardModel } from '../../../fakes/boards/models/board-model.ts';
import type { ChipOptions } from '../../../fakes/boards/models/chip-model.ts';
import { EspModel } from '../../../fakes/boards/models/esp-model.ts';
import { espTraits } from '../../../fakes/boards/models/esp-traits.ts';
import { Stm32Model } from '../../../fakes/boards/models/stm32-model.ts';
import { VirtualPort } from '../../../fakes/boards/models/virtual-line.ts';
import { contentsBefore, contentsOf } from './mcu-avr.ts';
import type { BoardRun } from './mcu-avr.ts';
import { espBaud, espContents, espFlashBytes, espStart } from './mcu-esp.ts';

interface Kind {
  readonly sizeBytes: number;
  readonly pageBytes: number;
  readonly start: number;
  readonly protocol: () => Protocol;
  readonly model: (options: ChipOptions) => BoardModel;
  readonly contents?: (sizeBytes: number) => Buffer;
  readonly baud?: number;
}

const kinds = {
  '328P': {
    sizeBytes: 30 * 1024,
    pageBytes: 128,
    start: 0,
    protocol: () => stk500v1(),
    model: (options) => new OptibootModel(options),
  },
  '2560': {
    sizeBytes: 240 * 1024,
    pageBytes: 256,
    start: 0,
    protocol: () => stk500v2(),
    model: (options) => new WiringModel(options),
  },
  STM32: {
    sizeBytes: 64 * 1024,
    pageBytes: 1024,
    start: 0x0800_0000,
    protocol: () => stm32({ flashBytes: 64 * 1024 }),
    model: (options) => new Stm32Model({ ...options, productId: 0x410 }),
  },
  'STM32, checksums': {
    sizeBytes: 64 * 1024,
    pageBytes: 1024,
    start: 0x0800_0000,
    protocol: () => stm32({ flashBytes: 64 * 1024 }),
    model: (options) => new Stm32Model({ ...options, productId: 0x410, checksumAcks: 1 }),
  },
  ESP32: {
    sizeBytes: 1024 * 1024,
    pageBytes: 4096,
    start: espStart,
    protocol: () => esp({ baud: espBaud }),
    model: ({ programs }) =>
      new EspModel({ programs, traits: espTraits('esp32'), start: espStart, flashBytes: espFlashBytes }),
    contents: espContents,
    baud: espBaud,
  },
} as const satisfies Readonly<Record<string, Kind>>;

/** Returns the time of our flasher if time passes only on the wire and in the chip: the same on every machine. */
export async function virtualSeconds(name: keyof typeof kinds, { changed, latencyMs }: BoardRun): Promise<number> {
  const { sizeBytes, pageBytes, start, protocol, model, contents, baud = 115_200 }: Kind = kinds[name];
  const after = contents?.(sizeBytes) ?? contentsOf(sizeBytes, 1);
  const port = new VirtualPort(
    model({ programs: { old: contentsBefore(after, pageBytes, changed), new: after }, pageBytes }),
    latencyMs,
  );
  const { open: openLine, clock } = port;
  const board = { name, protocol: protocol(), baud, reset: 'dtr', openLine, clock, log: silentLog } as const;
  const image = makeImage('raw', [{ address: start, bytes: after }]);
  await flash({ image }, board, new AbortController().signal);
  return clock.monotonicMs() / 1000;
}
