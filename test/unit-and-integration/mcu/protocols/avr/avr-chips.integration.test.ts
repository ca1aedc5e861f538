import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';

import { describe, expect, test } from 'vitest';

import type { Board } from '../../../../../src/mcu/connection.ts';
import { flash, probe } from '../../../../../src/mcu/flash/flash.ts';
import { endOf, makeImage } from '../../../../../src/mcu/images/image.ts';
import type { Image } from '../../../../../src/mcu/images/image.ts';
import { readImage } from '../../../../../src/mcu/images/read-image.ts';
import { avrChip } from '../../../../../src/mcu/protocols/avr-chips.ts';
import type { AvrBootloader } from '../../../../../src/mcu/protocols/avr-chips.ts';
import { stk500v1 } from '../../../../../src/mcu/protocols/stk500v1.ts';
import { stk500v2 } from '../../../../../src/mcu/protocols/stk500v2.ts';
import { silentLog } from '../../../../../src/system/log/log.ts';
import { systemClock } from '../../../../../src/system/time/clock.ts';
import { SimulatedAvr } from '../../../../fakes/boards/avr/simulated-avr.ts';
import { built } from '../../../../fakes/boards/build.ts';
import { codeOf } from '../../images/build.ts';

const signal = new AbortController().signal;
const boardsFile = '/usr/share/arduino/hardware/arduino/avr/boards.txt';
const signatures: Readonly<Record<string, string>> = {
  atmega8: '1e9307',
  atmega168: '1e9406',
  atmega328p: '1e950f',
  atmega1280: '1e9703',
  atmega2560: '1e9801',
};

/** ATmegaBOOT for Bluetooth fills 4 KiB: its chip needs `bootloader_bytes`. */
const unusual = new Set(['bt.menu.cpu.atmega328']);

interface ListedBoard {
  readonly board: string;
  readonly mcu: string;
  readonly kind: AvrBootloader['kind'];
  readonly maximumBytes: number;
}

/** The boards with these protocols in boards.txt of arduino-core-avr; a menu entry overrides its board. */
async function listedBoards(): Promise<readonly ListedBoard[]> {
  const settings = new Map<string, string>();
  for (const line of (await readFile(boardsFile, 'utf8')).split('\n')) {
    const [key = '', value] = line.trim().split('=', 2);
    if (value !== undefined && !key.startsWith('#')) settings.set(key, value);
  }
  const boards = [...settings.keys()].filter((key) => key.endsWith('.build.mcu')).map((key) => key.slice(0, -10));
  return boards.flatMap((board) => {
    const of = (name: string): string =>
      settings.get(`${board}.${name}`) ?? settings.get(`${board.split('.')[0]}.${name}`) ?? '';
    const mcu = of('build.mcu');
    if (!['arduino', 'wiring'].includes(of('upload.protocol')) || signatures[mcu] === undefined) return [];
    const kind =
      of('upload.protocol') === 'wiring'
        ? 'wiring'
        : /optiboot/.test(of('bootloader.file'))
          ? 'optiboot'
          : 'atmegaboot';
    return [{ board, mcu, kind, maximumBytes: Number(of('upload.maximum_size')) }];
  });
}

function boardOf(avr: SimulatedAvr, protocol: Board['protocol']): Board {
  const { baud, openLine } = avr;
  return { name: 'board', protocol, baud, reset: 'dtr', openLine, clock: systemClock, log: silentLog };
}

test('an image may be as large as boards.txt of arduino-core-avr permits', async () => {
  const boards = await listedBoards();
  expect(boards.length).toBeGreaterThan(15);
  const wrong = boards.filter(({ mcu, kind, maximumBytes }) => {
    const chip = avrChip(Buffer.from(signatures[mcu] ?? '', 'hex'), { kind }, {});
    const larger = kind === 'optiboot' ? chip.optibootSections.map((bytes) => chip.flash.end - bytes) : [];
    return ![chip.application.end, ...larger].includes(maximumBytes);
  });
  expect(wrong.map(({ board }) => board).filter((board) => !unusual.has(board))).toEqual([]);
});

const arduino = '/usr/share/arduino/hardware/arduino/avr/bootloaders';
const hello = join(import.meta.dirname, '../../../../fakes/boards/avr/hello.c');

describe('a program by avr-gcc is accepted', () => {
  const chips = ['atmega168', 'atmega328p', 'atmega644p', 'atmega1280', 'atmega2560'];
  const filled = '-DVERSION=1 -DFILL=900 -DBAUD=57600';
  const withoutVectors = `-DF_CPU=16000000L -DBAUD_RATE=115200 -DLED_START_FLASHES=0 -I${arduino}/optiboot`;

  test.each([
    ...chips.map((mcu) => [mcu, '-Os', hello, filled]),
    ...chips.map((mcu) => [mcu, '-O0 -mrelax', hello, filled]),
    ...chips.slice(0, 4).map((mcu) => [mcu, '-Os -nostartfiles', `${arduino}/optiboot/optiboot.c`, withoutVectors]),
  ])('for an %s with %s: %s', async (mcu = '', options = '', source = '', more = '') => {
    const name = `${basename(source)}-${mcu}${options.replaceAll(' ', '')}.elf`;
    const elf = await built(name, [source], `avr-gcc -w ${options} -mmcu=${mcu} ${more} ${source} -o`);
    const signature = Buffer.from({ ...signatures, atmega644p: '1e960a' }[mcu] ?? '', 'hex');
    const chip = avrChip(signature, { kind: 'optiboot' }, {});
    const image = readImage(await readFile(elf));
    expect(codeOf(() => chip.checkStart?.(image))).toBe('accepted');
  });
});

/** The ends of RAM in the headers of avr-libc, and devices with them; the first ones can be boards. */
const ramEnds: Readonly<Record<string, readonly string[]>> = {
  '0x45f': ['atmega8', 'atmega16'],
  '0x4ff': ['atmega88', 'atmega88p', 'atmega168', 'atmega168p', 'atmega164p', 'atmega32u2'],
  '0x85f': ['atmega32'],
  '0x8ff': ['atmega328', 'atmega328p', 'atmega324p'],
  '0x10ff': ['atmega644', 'atmega644p', 'atmega64', 'atmega128'],
  '0x21ff': ['atmega1280', 'atmega2560', 'atmega640'],
  '0x40ff': ['atmega1284', 'atmega1284p'],
  '0x25f': ['attiny84', 'attiny85', 'atmega8515', 'atmega8535'],
  '0x2ff': ['atmega48', 'atmega48p', 'attiny88'],
  '0x5ff': ['atmega16u4'],
  '0xaff': ['atmega32u4'],
  '0x20ff': ['at90usb1286'],
  '0x41ff': ['atmega128rfa1'],
  '0x81ff': ['atmega256rfr2'],
};

describe('a program by avr-gcc in Intel HEX, which does not name its chip,', () => {
  const source = join(import.meta.dirname, 'startup.c');
  const boards = {
    '1e9307': '0x45f',
    '1e930a': '0x4ff',
    '1e9406': '0x4ff',
    '1e9502': '0x85f',
    '1e950f': '0x8ff',
    '1e960a': '0x10ff',
    '1e9703': '0x21ff',
    '1e9801': '0x21ff',
    '1e9705': '0x40ff',
  };
  const devices = Object.entries(ramEnds).flatMap(([end, names]) => names.map((name) => [name, end] as const));

  async function programFor(mcu: string, options: string): Promise<Image> {
    const name = `startup-${mcu}${options.replaceAll(/[ =,]/g, '')}.elf`;
    const elf = readImage(await readFile(await built(name, [source], `avr-gcc ${options} -mmcu=${mcu} ${source} -o`)));
    return makeImage('intel-hex', elf.segments);
  }

  test.each(devices)('for an %s is refused by chips whose RAM does not end at %s', async (mcu, end) => {
    const image = await programFor(mcu, `-Os -DEND=${end}`);
    const verdicts = Object.entries(boards).map(([signature, itsEnd]) => {
      const chip = avrChip(Buffer.from(signature, 'hex'), { kind: 'optiboot' }, {});
      const isWrong = itsEnd !== end;
      // one with equal RAM may have other vectors
      return isWrong || chip.name.toLowerCase() === mcu ? [isWrong, codeOf(() => chip.checkStart?.(image))] : undefined;
    });
    const given = verdicts.filter((verdict) => verdict !== undefined);
    expect(given).toEqual(given.map(([isWrong]) => [isWrong, isWrong === true ? 'image-wrong-chip' : 'accepted']));
  });

  test.each([
    '-O0 -mrelax',
    '-O3 -flto',
    '-Os -flto -mrelax -mcall-prologues',
    '-Os -DEARLY',
    '-Os -Wl,--defsym=__stack=0x8006f0',
    '-Os -Wl,--defsym=__stack=0x80ffff',
  ])('with %s is accepted by its chip', async (options) => {
    const chip = avrChip(Uint8Array.of(0x1e, 0x95, 0x0f), { kind: 'optiboot' }, {});
    const image = await programFor('atmega328p', options);
    expect(codeOf(() => chip.checkStart?.(image))).toBe('accepted');
  });

  test('is refused by a smaller chip with equal RAM if it uses an instruction of larger chips', async () => {
    const chip = avrChip(Uint8Array.of(0x1e, 0x96, 0x0a), { kind: 'optiboot' }, {});
    const image = await programFor('atmega128', '-Os');
    expect(() => chip.checkStart?.(image)).toThrow('made for a larger chip: it uses ELPM, which ATmega644P lacks');
  });

  test('is refused even if its startup code does more, and the reason names both chips', async () => {
    const chip = avrChip(Uint8Array.of(0x1e, 0x95, 0x0f), { kind: 'optiboot' }, {});
    const image = await programFor('atmega32u4', '-Os -flto -mrelax -DEARLY');
    const reason = /made for a chip such as ATmega32U4.* stack at 0xaff.* RAM of ATmega328P ends at 0x8ff/;
    expect(() => chip.checkStart?.(image)).toThrow(reason);
  });
});

describe('a real bootloader', () => {
  test.each([
    ['optiboot-644p', stk500v1(), 'ATmega644P', 0xfc00],
    ['atmegaboot-1280', stk500v1(), 'ATmega1280', 0x1_f000],
    ['stk500v2', stk500v2(), 'ATmega2560', 0x3_e000],
  ] as const)(
    '%s: its boot section is known, and no image reaches into it',
    async (bootloader, protocol, name, end) => {
      await using avr = await SimulatedAvr.start({ bootloader });
      const board = boardOf(avr, protocol);
      expect((await probe(board, signal)).chip).toMatchObject({ name, application: { start: 0, end } });
      const before = await avr.flashMemory();
      const image = makeImage('raw', [{ address: end - 2, bytes: Uint8Array.of(1, 2, 3) }]);
      await expect(flash({ image }, board, signal)).rejects.toMatchObject({ code: 'image-overwrites-bootloader' });
      expect((await avr.flashMemory()).equals(before)).toBe(true);
    },
  );

  test('of an ATmega2560 tells its size by the fuses', async () => {
    await using avr = await SimulatedAvr.start({ bootloader: 'stk500v2', highFuse: 0xda });
    const { chip } = await probe(boardOf(avr, stk500v2()), signal);
    expect(chip.application.end).toBe(0x3_f000);
  });

  test('is neither kept nor put back', async () => {
    await using avr = await SimulatedAvr.start({ bootloader: 'optiboot-644p', pageMs: 1 });
    const board = boardOf(avr, stk500v1());
    const bootloader = (await avr.flashMemory()).subarray(0xfc00);
    const kept: (Image | undefined)[] = [];
    const keep = async (previous: Image | undefined): Promise<void> => void kept.push(previous);
    const image = makeImage('raw', [{ address: 0xfbff, bytes: Uint8Array.of(7) }]);
    await flash({ image, toStay: true }, board, signal);
    const program = makeImage('raw', [{ address: 0, bytes: Uint8Array.of(0xff, 0xcf) }]);
    await flash({ image: program, keep }, board, signal);
    expect(kept[0]?.segments.map((segment) => [segment.address, endOf(segment)])).toEqual([[0xfbc0, 0xfc00]]);
    await flash({ image: kept[0] ?? image, toStay: true }, board, signal);
    const memory = await avr.flashMemory();
    expect([memory[0xfbff], memory.subarray(0xfc00).equals(bootloader)]).toEqual([7, true]);
  });
});
