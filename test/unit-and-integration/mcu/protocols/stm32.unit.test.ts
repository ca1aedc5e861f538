import { describe, expect, test } from 'vitest';

import type { Board } from '../../../../src/mcu/connection.ts';
import { McuError } from '../../../../src/mcu/errors.ts';
import { flash, probe } from '../../../../src/mcu/flash/flash.ts';
import { makeImage } from '../../../../src/mcu/images/image.ts';
import type { Image } from '../../../../src/mcu/images/image.ts';
import type { Stm32Settings } from '../../../../src/mcu/protocols/stm32/stm32-chips.ts';
import { stm32 } from '../../../../src/mcu/protocols/stm32/stm32.ts';
import { silentLog } from '../../../../src/system/log/log.ts';
import { Stm32Model } from '../../../fakes/boards/models/stm32-model.ts';
import type { Stm32ModelOptions } from '../../../fakes/boards/models/stm32-model.ts';
import { VirtualPort } from '../../../fakes/boards/models/virtual-line.ts';
import { program } from './fault-matrix.ts';

const signal = new AbortController().signal;
const pageBytes = 1024;
const pages = 48;
const start = 0x0800_0000;
const old = program(pages * pageBytes, 1);
const other = program(pages * pageBytes, 2);
const changed = Uint8Array.from(old);
changed[30 * pageBytes + 3] = 0x42;

interface Rig {
  readonly model: Stm32Model;
  readonly port: VirtualPort;
  readonly board: Board;
}

type Bootloader = Partial<Omit<Stm32ModelOptions, 'programs'>>;

function rig(bootloader: Bootloader, next: Uint8Array, latencyMs = 0, settings: Stm32Settings = {}): Rig {
  const model = new Stm32Model({ programs: { old, new: next }, pageBytes, productId: 0x410, ...bootloader });
  const port = new VirtualPort(model, latencyMs);
  const board: Board = {
    name: 'board',
    protocol: stm32(settings),
    baud: 115_200,
    reset: 'dtr',
    openLine: port.open,
    clock: port.clock,
    log: silentLog,
  };
  return { model, port, board };
}

function imageOf(bytes: Uint8Array, address = start): Image {
  return makeImage('raw', [{ address, bytes }]);
}

async function failureOf(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => 'done',
    (error: unknown) => error,
  );
}

function codeIn(error: unknown): string {
  return error instanceof McuError ? error.code : String(error);
}

describe.each([1, 2] as const)('an STM32 that computes checksums, and acknowledges them %i times', (acks) => {
  test('is compared and verified by them: nothing is read back', async () => {
    const plain = rig({}, other);
    await flash({ image: imageOf(other) }, plain.board, signal);
    const { model, port, board } = rig({ checksumAcks: acks }, other);
    const report = await flash({ image: imageOf(other) }, board, signal);
    expect(report).toMatchObject({ unitsWritten: pages, known: 'read-back', repeated: 0 });
    expect(model.ran).toEqual(['new']);
    expect(model.violations).toEqual([]);
    expect(port.counts['to-host']).toBeLessThan(plain.port.counts['to-host'] / 5);
    expect(port.clock.monotonicMs()).toBeLessThan(plain.port.clock.monotonicMs() * 0.7);
  });

  test('recognizes an image by one of them, after a sample', async () => {
    const { model, board } = rig({ checksumAcks: acks }, old);
    expect(await flash({ image: imageOf(old) }, board, signal)).toMatchObject({ unitsWritten: 0, known: 'read-back' });
    const [comparedWithWhatIsRead, sample, whole] = [2, 8, 1];
    expect(model.checksums).toBe(comparedWithWhatIsRead + sample + whole);
  });

  test('gets the pages that differ, and the first one, which was parked', async () => {
    const { model, board } = rig({ checksumAcks: acks }, changed);
    const report = await flash({ image: imageOf(changed) }, board, signal);
    expect(report).toMatchObject({ unitsWritten: 2, known: 'read-back' });
    expect(model.ran).toEqual(['new']);
  });
});

test.each([
  ['parts of a command in one burst', {}, 0.75],
  ['checksums', { checksumAcks: 1, isSlow: true }, 0.66],
  ['both', { checksumAcks: 1 }, 0.55],
] as const)('at 16 ms %s save a good part of the time', async (_, bootloader, ratio) => {
  const plain = rig({ isSlow: true }, other, 16);
  await flash({ image: imageOf(other) }, plain.board, signal);
  const quick = rig(bootloader, other, 16);
  await flash({ image: imageOf(other) }, quick.board, signal);
  expect(quick.port.clock.monotonicMs()).toBeLessThan(plain.port.clock.monotonicMs() * ratio);
});

test('a bootloader that cannot follow a burst gets part by part', async () => {
  const tried = rig({ isSlow: true }, other);
  await probe(tried.board, signal);
  expect(tried.model.overruns).toBeGreaterThan(0);
  const { model, board } = rig({ isSlow: true }, other);
  expect(await flash({ image: imageOf(other) }, board, signal)).toMatchObject({ known: 'read-back', repeated: 0 });
  expect(model.overruns).toBe(tried.model.overruns);
  expect(model.ran).toEqual(['new']);
  expect(model.violations).toEqual([]);
});

test('checksums that do not agree with what is read are not used', async () => {
  const { model, board } = rig({ checksumAcks: 0 }, other);
  expect(await probe(board, signal)).toMatchObject({ can: ['read', 'erase', 'park', 'write'] });
  expect(await flash({ image: imageOf(other) }, board, signal)).toMatchObject({ known: 'read-back' });
  expect(model.ran.at(-1)).toBe('new');
});

test('an acknowledgement that gets lost while checksums are tried does not deceive', async () => {
  // The answers to the first of them begin about here.
  for (let at = 275; at < 335; at += 1) {
    const { model, port, board } = rig({ checksumAcks: 2 }, changed);
    port.inject({ kind: 'drop', direction: 'to-host', at });
    await flash({ image: imageOf(changed) }, board, signal);
    expect(model.ran.at(-1)).toBe('new');
  }
});

test('a chip with less flash memory than the largest of its kind is read and written as far as it goes', async () => {
  const small = rig({ flashBytes: pages * pageBytes }, other);
  const kept: (Image | undefined)[] = [];
  const keep = async (image: Image | undefined): Promise<void> => void kept.push(image);
  const { chip } = await flash({ image: imageOf(other), keep }, small.board, signal);
  expect(chip.application).toEqual({ start, end: start + pages * pageBytes });
  expect(kept.map((image) => image?.sizeBytes)).toEqual([old.byteLength]);
  expect(small.model.ran.at(-1)).toBe('new');
});

test.each([0x410, 0x440, 0x422, 0x413, 0x460, 0x468, 0x435])(
  'the chip with the product identifier %i reports the size of its flash memory',
  async (productId) => {
    const { board } = rig({ productId, flashBytes: 64 * 1024 }, other);
    expect((await probe(board, signal)).chip.flash).toEqual({ start, end: start + 64 * 1024 });
  },
);

// A page of a GD32 takes up to 300 ms (Zephyr, gd32f403.dtsi), a sector of an STM32F4 up to 4 s (data sheet).
test.each([300, 4_000])('a chip that needs %i ms to erase is flashed', async (eraseMs) => {
  const { model, board } = rig({ eraseMs }, other);
  expect(await flash({ image: imageOf(other) }, board, signal)).toMatchObject({ unitsWritten: pages, repeated: 0 });
  expect(model.ran).toEqual(['new']);
});

// Regression: the advice was to check the baud rate, since only the first of two acknowledgements had come.
test('a chip that erases slower than any in a data sheet is reported as slow', async () => {
  const { board } = rig({ eraseMs: 7_000 }, other);
  await expect(flash({ image: imageOf(other) }, board, signal)).rejects.toMatchObject({
    code: 'board-timeout',
    message: expect.stringMatching(/accepted a command, and did not complete it within 6\.5 s$/) as string,
    advice: expect.stringContaining('supply voltage') as string,
  });
});

describe('a bootloader whose erase command takes page numbers of one byte', () => {
  test('erases these pages', async () => {
    const { model, board } = rig({ hasOldErase: true }, other);
    expect(await flash({ image: imageOf(other) }, board, signal)).toMatchObject({ unitsWritten: pages, repeated: 0 });
    expect([model.ran, model.violations]).toEqual([['new'], []]);
  });

  test.each([
    ['takes 256 pages', 256, 'accepted'],
    ['is refused with more, which would erase the first ones', 257, 'board-unsupported'],
  ])('%s', async (_, count, expected) => {
    const { model, board } = rig({ hasOldErase: true }, other, 0, { flashBytes: count * pageBytes });
    const verdict = await probe(board, signal).then(() => 'accepted', codeIn);
    expect(verdict).toBe(expected);
    expect(Buffer.compare(model.memory, old)).toBe(0);
  });
});

describe('a board that stays in its bootloader is reported', () => {
  const advice =
    'set BOOT0 low and reset the board; if RTS drives BOOT0, set reset = "dtr-rts" in its target, and check that line';

  test.each([
    ['refuses to start the application', 'dtr', { refusesGo: true }],
    ['starts again, though RTS was to set BOOT0 low', 'dtr-rts', {}],
  ] as const)('if that %s', async (_, reset, bootloader) => {
    const { model, board: usual } = rig(bootloader, other);
    const board: Board = { ...usual, reset };
    const failures = [
      await failureOf(flash({ image: imageOf(other) }, board, signal)),
      await failureOf(probe(board, signal)),
    ];
    expect(failures).toMatchObject(failures.map(() => ({ code: 'board-refused', advice })));
    for (const failure of failures) expect(String(failure)).toContain('so the board stays in its bootloader');
    expect(Buffer.compare(model.memory, other)).toBe(0);
    const misfit = imageOf(program(pageBytes, 2), start + 2 ** 20);
    const refused = await failureOf(flash({ image: misfit }, board, signal));
    expect(refused).toMatchObject({ code: 'image-outside-chip' });
    expect(String(refused)).toContain('so the board stays in its bootloader');
    expect(model.ran).toEqual([]);
  });
});

describe('a board whose modem lines start the application', () => {
  const lines = { boot0ByRts: true } as const;

  test('starts it, though its bootloader refuses to', async () => {
    const { model, board } = rig({ ...lines, refusesGo: true }, other);
    await flash({ image: imageOf(other) }, { ...board, reset: 'dtr-rts' }, signal);
    expect(model.ran).toEqual(['new']);
  });

  test.each([
    ['it is read-protected', { readProtected: true }, 'board-protected'],
    ['it is unknown', { productId: 0x421 }, 'board-unknown'],
  ])('runs its program again after a refusal because %s', async (_, bootloader, code) => {
    const { model, board } = rig({ ...lines, ...bootloader }, other);
    const refused = flash({ image: imageOf(other) }, { ...board, reset: 'dtr-rts' }, signal);
    await expect(refused).rejects.toMatchObject({ code });
    expect(model.ran.at(-1)).toBe('old');
  });

  test('runs its program again after a failure before the first write', async () => {
    const { model, board } = rig(lines, other);
    const keep = async (): Promise<void> => {
      throw new McuError('board-refused', 'the bootloader refuses a command');
    };
    const failed = flash({ image: imageOf(other), keep }, { ...board, reset: 'dtr-rts' }, signal);
    await expect(failed).rejects.toMatchObject({ code: 'board-refused' });
    expect(model.ran).toEqual(['old']);
  });
});

describe('a chip with two banks', () => {
  const twoBanks = { productId: 0x415, pageBytes: 2 * pageBytes };

  test('takes an image into the bank that starts', async () => {
    const { model, board } = rig(twoBanks, other);
    expect(await flash({ image: imageOf(other) }, board, signal)).toMatchObject({ known: 'read-back' });
    expect(model.ran.at(-1)).toBe('new');
  });

  test('is refused, untouched, if its second bank starts', async () => {
    const { model, board } = rig({ ...twoBanks, optionBytes: 0xff7f_f8aa }, other);
    await expect(flash({ image: imageOf(other) }, board, signal)).rejects.toMatchObject({ code: 'board-unsupported' });
    expect(Buffer.compare(model.memory, old)).toBe(0);
  });
});

describe('an STM32 with an own bootloader', () => {
  const application = Buffer.from(program(pageBytes, 3));
  application.writeUInt32LE(start + 2 * pageBytes + 0x101, 4);
  const behind = makeImage('raw', [{ address: start + 2 * pageBytes, bytes: application }]);

  test('keeps it, and gets an application behind it', async () => {
    const { model, board } = rig({}, old);
    expect(await flash({ image: behind }, board, signal)).toMatchObject({ unitsWritten: 1 });
    expect(Buffer.compare(model.memory.subarray(0, 2 * pageBytes), old.subarray(0, 2 * pageBytes))).toBe(0);
  });

  test.each([
    ['it begins with them', 0],
    ['data precedes them', pageBytes],
    ['a header precedes them', 0x200],
  ])('gets the page with the vectors of an application last, if %s: half of one never starts', async (_, offset) => {
    const at = 2 * pageBytes;
    const applications = ([5, 6] as const).map((seed) => {
      const code = Buffer.from(program(7 * pageBytes - offset, seed));
      code.writeUInt32LE(start + at + offset + 0x101, 4);
      return Buffer.concat([Buffer.alloc(offset, seed), code]);
    });
    const [before = old, after = other] = applications;
    for (let writes = 0; writes <= 7 * 4; writes += 1) {
      const { model, board } = rig({}, old);
      model.memory.set(before, at);
      model.dieAtWrite(writes, false);
      await flash({ image: imageOf(after, start + at) }, board, signal).catch(codeIn);
      const code = model.memory.subarray(at + offset, at + after.byteLength);
      const isWhole = applications.some((bytes) => Buffer.compare(bytes.subarray(offset), code) === 0);
      const isBlank = code.subarray(0, 8).every((byte) => byte === 0xff);
      expect(isWhole || isBlank, `after ${writes} writes`).toBe(true);
    }
  });

  test('that is not there gets no application, except that a backup is restored', async () => {
    const { model, board } = rig({}, old);
    model.memory.fill(0xff);
    await expect(flash({ image: behind }, board, signal)).rejects.toMatchObject({ code: 'image-unsupported' });
    expect(model.memory.every((byte) => byte === 0xff)).toBe(true);
    expect(await flash({ image: behind, toStay: true }, board, signal)).toMatchObject({ unitsWritten: 1 });
  });

  test('loses nothing of it to an image that begins inside of its first page', async () => {
    const { model, board } = rig({}, old);
    const inside = makeImage('raw', [{ address: start + 0x10c, bytes: program(4096, 3) }]);
    await expect(flash({ image: inside }, board, signal)).rejects.toMatchObject({
      code: 'image-overwrites-bootloader',
    });
    expect(Buffer.compare(model.memory, old)).toBe(0);
  });
});
