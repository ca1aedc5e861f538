import { deflateSync } from 'node:zlib';

import { flash } from '../../../src/mcu/flash/flash.ts';
import { makeImage } from '../../../src/mcu/images/image.ts';
import type { Protocol } from '../../../src/mcu/protocol.ts';
import { esp } from '../../../src/mcu/protocols/esp/esp.ts';
import { stk500v1 } from '../../../src/mcu/protocols/stk500v1.ts';
import { stk500v2 } from '../../../src/mcu/protocols/stk500v2.ts';
import { stm32 } from '../../../src/mcu/protocols/stm32/stm32.ts';
import { silentLog } from '../../../src/system/log/log.ts';
import { OptibootModel, WiringModel } from '../../fakes/boards/models/avr-model.ts';
import type { BoardModel } from '../../fakes/boards/models/board-model.ts';
import type { ChipOptions } from '../../fakes/boards/models/chip-model.ts';
import { EspModel } from '../../fakes/boards/models/esp-model.ts';
import { espTraits } from '../../fakes/boards/models/esp-traits.ts';
import { Stm32Model } from '../../fakes/boards/models/stm32-model.ts';
import { VirtualPort } from '../../fakes/boards/models/virtual-line.ts';
import type { Figure, SuiteResult } from './figures.ts';
import { spreadOf } from './statistics.ts';

/** Each data byte once there and once back, the frames of one write and one read, and the chip's work for it. */
interface Wire {
  readonly unitBytes: number;
  readonly frameBytes: number;
  readonly characterMs: number;
  readonly unitMs: number;
}

interface Kind {
  readonly after: Buffer;
  readonly pageBytes: number;
  readonly start: number;
  readonly protocol: () => Protocol;
  readonly model: (options: ChipOptions) => BoardModel;
  readonly minimumSeconds: number;
  readonly baud?: number;
}

const espBaud = 921_600;
const espStart = 0x1_0000;
const atmega = 10 / 115.2;
const stm32Wire = { unitBytes: 256, frameBytes: 24, characterMs: 11 / 115.2, unitMs: 10 + 25 / 4 };

const kinds: Readonly<Record<string, Kind>> = {
  '328P, 30 KiB': {
    ...contents(30, { unitBytes: 128, frameBytes: 26, characterMs: atmega, unitMs: 4 }),
    pageBytes: 128,
    start: 0,
    protocol: () => stk500v1(),
    model: (options) => new OptibootModel(options),
  },
  '2560, 240 KiB': {
    ...contents(240, { unitBytes: 256, frameBytes: 43, characterMs: atmega, unitMs: 4 }),
    pageBytes: 256,
    start: 0,
    protocol: () => stk500v2(),
    model: (options) => new WiringModel(options),
  },
  'STM32, 64 KiB': stm32Kind(),
  'STM32 with checksums, 64 KiB': stm32Kind({ checksumAcks: 1 }),
  'ESP32, 1 MiB': espKind(1024 * 1024),
};

/** Row 7: the flasher in virtual time, in which only the wire and the chip take time: the same on every machine. */
export async function mcuSuite(): Promise<SuiteResult> {
  const figures: Figure[] = [];
  for (const [name, kind] of Object.entries(kinds)) {
    const whole = await virtualSeconds(kind);
    const value = spreadOf([whole / kind.minimumSeconds]);
    const how = `virtual time; the wire and the chip take ${kind.minimumSeconds.toFixed(2)} s`;
    figures.push(
      seconds(name, whole),
      { name: `${name} / the wire's minimum`, unit: '×', value, target: 1.15, how },
      seconds(`${name}: 1 % changed`, await virtualSeconds(kind, { changed: 0.01 })),
      seconds(`${name}: 16 ms latency`, await virtualSeconds(kind, { latencyMs: 16 })),
    );
  }
  return { suite: 'microcontrollers', measurements: [], figures };
}

function seconds(name: string, value: number): Figure {
  return { name, unit: 's', value: spreadOf([value]), how: 'virtual time' };
}

function contents(kibibytes: number, wire: Wire): Pick<Kind, 'after' | 'minimumSeconds'> {
  const { unitBytes, frameBytes, characterMs, unitMs } = wire;
  const sizeBytes = kibibytes * 1024;
  const bytes = Array.from({ length: sizeBytes }, (_, index) => (index * 31 + (index >> 6) * 7 + 94) & 0xff);
  // LSL, AND, MOVW, SBC and `rjmp .`, or the stack pointer and the reset vector of an STM32
  bytes.splice(0, 10, 0, 0x0c, 0, 0x20, 0x11, 0x01, 0, 0x08, 0xff, 0xcf);
  const perUnitMs = (2 * unitBytes + frameBytes) * characterMs + unitMs;
  return { after: Buffer.from(bytes), minimumSeconds: ((sizeBytes / unitBytes) * perUnitMs) / 1000 };
}

function stm32Kind(checksums: { readonly checksumAcks?: 1 } = {}): Kind {
  return {
    ...contents(64, stm32Wire),
    pageBytes: 1024,
    start: 0x0800_0000,
    protocol: () => stm32({ flashBytes: 64 * 1024 }),
    model: (options) => new Stm32Model({ ...options, productId: 0x410, ...checksums }),
  };
}

/** The minimum: the deflated bytes once, 40 bytes for each packet, erasing, programming and one digest. */
function espKind(sizeBytes: number): Kind {
  let noise = 1;
  const bytes = Array.from({ length: sizeBytes }, () => {
    noise = (Math.imul(noise, 1_103_515_245) + 12_345) & 0x7fffffff;
    return (noise >> 16) & 0x17;
  });
  const after = Buffer.from(bytes); // as firmware does, it deflates to a little more than half
  const deflated = deflateSync(after, { level: 9 }).byteLength;
  const wireMs = ((deflated + (deflated / 1024) * 40) * 10_000) / espBaud;
  const chipMs = (sizeBytes / (64 * 1024)) * 150 + (sizeBytes / 256) * 0.4 + sizeBytes * (500 / (1024 * 1024));
  return {
    after,
    minimumSeconds: (wireMs + chipMs) / 1000,
    pageBytes: 4096,
    start: espStart,
    protocol: () => esp({ baud: espBaud }),
    model: ({ programs }) =>
      new EspModel({ programs, traits: espTraits('esp32'), start: espStart, flashBytes: 4 * 1024 * 1024 }),
    baud: espBaud,
  };
}

/** `changed`: the share of the pages, at the end, in which the previous content differs. */
async function virtualSeconds(
  { after, pageBytes, start, protocol, model, baud = 115_200 }: Kind,
  { changed = 1, latencyMs }: { readonly changed?: number; readonly latencyMs?: number } = {},
): Promise<number> {
  const old = Buffer.from(after);
  const pages = Math.ceil(after.byteLength / pageBytes);
  for (let page = pages - Math.max(1, Math.round(pages * changed)); page < pages; page += 1) {
    const at = page * pageBytes + 8;
    old[at] = ~(old[at] ?? 0);
  }
  const { open: openLine, clock } = new VirtualPort(model({ programs: { old, new: after }, pageBytes }), latencyMs);
  const board = { name: 'bench', protocol: protocol(), baud, reset: 'dtr', openLine, clock, log: silentLog } as const;
  const image = makeImage('raw', [{ address: start, bytes: after }]);
  await flash({ image }, board, new AbortController().signal);
  return clock.monotonicMs() / 1000;
}
