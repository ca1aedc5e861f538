import { execFile } from 'node:child_process';
import { constants } from 'node:fs';
import { open, readFile } from 'node:fs/promises';
import process from 'node:process';
import { promisify } from 'node:util';

import { describe, expect, test } from 'vitest';

import type { Board } from '../../../../src/mcu/connection.ts';
import { McuError } from '../../../../src/mcu/errors.ts';
import { flash, planFlash, probe } from '../../../../src/mcu/flash/flash.ts';
import { sliceOf } from '../../../../src/mcu/images/image.ts';
import type { Image } from '../../../../src/mcu/images/image.ts';
import { readImage } from '../../../../src/mcu/images/read-image.ts';
import type { Protocol } from '../../../../src/mcu/protocol.ts';
import type { AvrSettings } from '../../../../src/mcu/protocols/avr-chips.ts';
import { stk500v1 } from '../../../../src/mcu/protocols/stk500v1.ts';
import { stk500v2 } from '../../../../src/mcu/protocols/stk500v2.ts';
import { AgentError, valueOrError } from '../../../../src/system/errors.ts';
import { silentLog } from '../../../../src/system/log/log.ts';
import { runProgram } from '../../../../src/system/processes/child-process.ts';
import { systemClock } from '../../../../src/system/time/clock.ts';
import { buildHello, SimulatedAvr } from '../../../fakes/boards/avr/simulated-avr.ts';
import type { Bootloader } from '../../../fakes/boards/avr/simulated-avr.ts';
import { readBack } from '../../../fakes/boards/read-back.ts';
import { howMuch } from '../../../full.ts';

const signal = new AbortController().signal;

interface Kind {
  readonly bootloader: Bootloader;
  readonly protocol: (options?: AvrSettings) => Protocol;
  /** So large a boot section that a backup is small. */
  readonly bootloaderBytes: number;
  readonly chip: string;
  readonly avrdude: readonly string[];
  /** From power on until the application speaks. */
  readonly startsWithinMs: number;
  /** Faults that every bootloader tolerates. */
  readonly faults: readonly Fault[];
}

const faults = ['drop 700', 'mute 1100', 'flip 900'] as const;
type Fault = (typeof faults)[number];

const kinds: readonly Kind[] = [
  {
    bootloader: 'optiboot',
    protocol: stk500v1,
    bootloaderBytes: 30 * 1024,
    chip: 'ATmega328P',
    avrdude: ['-c', 'arduino', '-p', 'm328p'],
    startsWithinMs: 3_000,
    faults,
  },
  {
    bootloader: 'atmegaboot',
    protocol: stk500v1,
    bootloaderBytes: 30 * 1024,
    chip: 'ATmega328P',
    avrdude: ['-c', 'arduino', '-p', 'm328p'],
    startsWithinMs: 5_000,
    faults: howMuch<readonly Fault[]>(faults, ['flip 900']),
  },
  {
    bootloader: 'stk500v2',
    protocol: stk500v2,
    bootloaderBytes: 254 * 1024,
    chip: 'ATmega2560',
    avrdude: ['-c', 'wiring', '-p', 'm2560'],
    startsWithinMs: 5_000,
    faults: howMuch<readonly Fault[]>(faults, ['mute 1100']),
  },
];

async function helloFile(bootloader: Bootloader, version: number): Promise<string> {
  return buildHello({ version, fillBytes: 600, bootloader });
}

async function hello(bootloader: Bootloader, version: number): Promise<Image> {
  return readImage(await readFile(await helloFile(bootloader, version)));
}

/** Three pages. */
async function small(version: number): Promise<Image> {
  return readImage(await readFile(await buildHello({ version, fillBytes: 100, bootloader: 'optiboot' })));
}

function boardOf(avr: SimulatedAvr, protocol: Protocol): Board {
  const { baud, openLine } = avr;
  return { name: 'board', protocol, baud, reset: 'dtr', openLine, clock: systemClock, log: silentLog };
}

async function expectHolds(avr: SimulatedAvr, image: Image): Promise<void> {
  const memory = await avr.flashMemory();
  for (const { address, bytes } of image.segments) {
    expect(Buffer.compare(memory.subarray(address, address + bytes.byteLength), bytes)).toBe(0);
  }
}

/** The kind with short waits, if two have the same protocol. */
const inPart = kinds.filter(({ bootloader }) => bootloader !== 'atmegaboot');

describe.each(howMuch(kinds, inPart))(
  'the real bootloader $bootloader',
  ({ bootloader, protocol, bootloaderBytes, chip, startsWithinMs }) => {
    test('is flashed, verified and started; a second flash finds nothing to write', async () => {
      await using avr = await SimulatedAvr.start({ bootloader });
      const board = boardOf(avr, protocol({ bootloaderBytes }));
      const [first, second] = [await hello(bootloader, 1), await hello(bootloader, 2)];

      expect((await probe(board, signal)).chip.name).toBe(chip);
      expect(await flash({ image: first }, board, signal)).toMatchObject({ known: 'read-back' });
      await expectHolds(avr, first);
      expect(await avr.applicationSays(startsWithinMs)).toBe('hello 1');
      expect((await flash({ image: first }, board, signal)).unitsWritten).toBe(0);
      expect((await planFlash(second, board, signal)).unitsDifferent).toBeGreaterThan(0);

      const kept: (Image | undefined)[] = [];
      const keep = async (previous: Image | undefined): Promise<void> => void kept.push(previous);
      await flash({ image: second, keep }, board, signal);
      expect(await avr.applicationSays(startsWithinMs)).toBe('hello 2');
      const [previous] = kept;
      await flash({ image: previous ?? second, expected: second }, board, signal);
      expect(await avr.applicationSays(startsWithinMs)).toBe('hello 1');
    });
  },
);

describe.each(kinds)('the real bootloader $bootloader', ({ bootloader, protocol, avrdude, faults: borne }) => {
  test('is flashed by avrdude, too, and needs no writing afterwards', async () => {
    await using avr = await SimulatedAvr.start({ bootloader });
    const file = await helloFile(bootloader, 3);
    const options = ['-q', '-q', '-D', '-b', `${avr.baud}`, '-P', avr.port, '-U', `flash:w:${file}:e`];
    const done = await runProgram(['avrdude', ...avrdude, ...options], { timeoutMs: 60_000 }, signal);
    expect(done.exitCode).toBe(0);
    const report = await flash({ image: await hello(bootloader, 3) }, boardOf(avr, protocol()), signal);
    expect(report.unitsWritten).toBe(0);
  });

  test.each(borne)('is flashed despite repeated `%s`', async (fault) => {
    await using avr = await SimulatedAvr.start({ bootloader });
    const image = await hello(bootloader, 4);
    await avr.tell(fault);
    const report = await flash({ image }, boardOf(avr, protocol()), signal);
    expect(report.repeated).toBeGreaterThan(0);
    await expectHolds(avr, image);
  });
});

test('power lost at every page leaves Optiboot with an application that is parked, and a board that can be flashed', async () => {
  await using avr = await SimulatedAvr.start({ bootloader: 'optiboot' });
  const [old, next] = [await small(1), await small(2)];
  const board = boardOf(avr, stk500v1());
  for (let page = 0x80; page < old.sizeBytes; page += 0x80) {
    await flash({ image: old }, board, signal);
    await avr.tell(`die ${page}`);
    const isOver = new AbortController();
    const flashing = valueOrError(flash({ image: next }, board, isOver.signal));
    await expect.poll(async () => avr.tell('stats')).toContain('dead=1');
    isOver.abort(new McuError('board-timeout', 'the power is lost'));
    expect(await flashing).toBeInstanceOf(AgentError);
    expect((await avr.flashMemory()).subarray(0, 2).toString('hex')).toBe('ffcf');
    await avr.tell('power');
  }
  expect(await avr.applicationSays(400)).toBe('');
  await flash({ image: next }, board, signal);
  expect(await avr.applicationSays(3_000)).toBe('hello 2');
}, 60_000);

test('reading back gives the image that was flashed', async () => {
  await using avr = await SimulatedAvr.start({ bootloader: 'optiboot' });
  const board = boardOf(avr, stk500v1({ bootloaderBytes: 30 * 1024 }));
  const image = await hello('optiboot', 1);
  await flash({ image }, board, signal);
  const read = await readBack(board, signal);
  expect(read && sliceOf(read, 0, 2048)).toEqual(sliceOf(image, 0, 2048));
});

test('flashes three boards concurrently in one process', async () => {
  const image = await hello('optiboot', 1);
  const flashOne = async (): Promise<string> => {
    await using avr = await SimulatedAvr.start({ bootloader: 'optiboot' });
    await flash({ image }, boardOf(avr, stk500v1()), signal);
    return await avr.applicationSays(3_000);
  };
  expect(await Promise.all([flashOne(), flashOne(), flashOne()])).toEqual(['hello 1', 'hello 1', 'hello 1']);
});

/** So does QEMU with a port of the machine that it emulates. */
test('a program that has modem lines on the port resets the board by DTR, though the port was open before', async () => {
  await using avr = await SimulatedAvr.start({ bootloader: 'optiboot' });
  const before = await resetsOf(avr);
  await using _port = await open(avr.port, constants.O_RDWR | constants.O_NOCTTY);
  await expect.poll(async () => resetsOf(avr)).toBe(before + 1);
  const raiseDtr = `import fcntl, os, struct, sys, termios
fd = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY)
for lines in 0, termios.TIOCM_DTR: fcntl.ioctl(fd, termios.TIOCMSET, struct.pack('i', lines))`;
  const environment = { ...process.env, ...(await avr.environment()) };
  await promisify(execFile)('python3', ['-c', raiseDtr, avr.port], { env: environment });
  await expect.poll(async () => resetsOf(avr)).toBe(before + 2);
});

async function resetsOf(avr: SimulatedAvr): Promise<number> {
  return Number(/resets=(\d+)/.exec(await avr.tell('stats'))?.[1]);
}
