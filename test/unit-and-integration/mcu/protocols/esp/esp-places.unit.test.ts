import { describe, expect, test } from 'vitest';

import { makeImage } from '../../../../../src/mcu/images/image.ts';
import type { Image } from '../../../../../src/mcu/images/image.ts';
import { otaEntry, partitionTable, twoSlots } from '../../../../fakes/boards/models/esp-bootloader.ts';
import { espApplication, espImage } from '../../../../fakes/boards/models/esp-image.ts';
import { noisyProgram } from '../fault-matrix.ts';
import { bench, first, otadata, programs, raw, second } from './esp-bench.ts';

describe('bytes outside of all partitions', () => {
  test.each([
    ['behind the partitions', 0x30000, noisyProgram(0x2000, 4)],
    ['before the bootloader', 0, noisyProgram(0x400, 4)],
    ['behind an application that fills its partition', second, Buffer.concat([programs.new], 0x10001)],
    ['behind blank bytes', 0x30000, Buffer.concat([new Uint8Array(0x2000).fill(0xff), noisyProgram(600, 4)])],
  ])('are refused, and nothing is written: %s', async (_, address, bytes) => {
    const { model, flash: bring } = bench();
    const before = Buffer.from(model.flash.bytes);
    await expect(bring(raw(address, bytes))).rejects.toMatchObject({ code: 'image-unknown' });
    expect([before.equals(model.flash.bytes), model.ran.at(-1)]).toEqual([true, 'old']);
  });

  test('are named with the places that are accepted', async () => {
    const message = expect.stringContaining('0x30000') as unknown;
    await expect(bench().flash(raw(0x30000, noisyProgram(600, 4)))).rejects.toMatchObject({ message });
  });
});

test.each([
  ['a bootloader', 0x1000, espImage(noisyProgram(8_000, 4))],
  ['data', 0x9000, noisyProgram(4096, 5)],
])('does not claim that the board runs %s', async (_, address, bytes) => {
  const { model, flash: bring } = bench();
  expect(await bring(raw(address, bytes))).toMatchObject({ known: 'sent', boots: 'ota_1' });
  expect(model.ran.at(-1)).toBe('old');
});

describe('a file with a partition table', () => {
  const megabyte = 2 ** 20;
  /** With a bootloader if its header states a size. */
  const file = (end: number, stated?: number): Image => {
    const more = { name: 'more', type: 1, subtype: 2, start: 0x30000, bytes: end - 0x30000 };
    const bootloader = Buffer.from(espImage(noisyProgram(8_000, 4)));
    bootloader[3] = Math.log2((stated ?? megabyte) / megabyte) << 4;
    return makeImage('raw', [
      ...(stated === undefined ? [] : [{ address: 0x1000, bytes: bootloader }]),
      { address: 0x8000, bytes: partitionTable([...twoSlots(), more]) },
      { address: first, bytes: programs.new },
      { address: second, bytes: programs.old },
    ]);
  };

  // flash_partitions.c refuses a table with a partition behind the size in the header, and spi_flash a smaller chip
  test.each([
    ['a partition behind the flash memory', megabyte, file(2 * megabyte), 'image-unknown'],
    ['one behind the size for the bootloader', 4 * megabyte, file(2 * megabyte, megabyte), 'image-unknown'],
    ['a bootloader for more flash memory', megabyte, file(megabyte, 2 * megabyte), 'image-unsupported'],
  ])('is refused with %s', async (_, flashBytes, image, code) => {
    const { model, flash: bring } = bench({ flashBytes });
    const before = Buffer.from(model.flash.bytes);
    await expect(bring(image)).rejects.toMatchObject({ code });
    expect(before.equals(model.flash.bytes)).toBe(true);
  });

  test('is written if all sizes fit', async () => {
    const { model, flash: bring } = bench({ flashBytes: 4 * megabyte });
    expect(await bring(file(2 * megabyte, 2 * megabyte))).toMatchObject({ boots: 'ota_1' });
    expect(model.violations).toEqual([]);
  });
});

describe('a partition table alone', () => {
  const moved = (start: number): Uint8Array =>
    partitionTable([...twoSlots().slice(0, -1), { name: 'ota_1', type: 0, subtype: 0x11, start, bytes: 0x10000 }]);

  test.each([
    ['an application', programs.old],
    ['an application without a descriptor', espImage(noisyProgram(9_000, 1), 0, 0x400d_0020)],
  ])('is written if what it starts is %s', async (_, application) => {
    const { model, flash: bring } = bench({ holds: { 0x30000: application } });
    const report = await bring(raw(0x8000, moved(0x30000)));
    expect(report).toMatchObject({ known: 'sent', boots: 'ota_1' });
    expect(Buffer.compare(model.flash.bytes.subarray(0x8000, 0x8c00), moved(0x30000))).toBe(0);
  });

  test.each([
    ['nothing', 0x30000, undefined],
    ['a bootloader', 0x30000, espImage(noisyProgram(9_000, 4))],
    ['an application for another chip', 0x30000, espApplication(noisyProgram(9_000, 4), 5)],
    ['an application that does not fit', 0x28000, espApplication(noisyProgram(0x10000, 4))],
    ['other data', 0x30000, noisyProgram(9_000, 4)],
    ['behind the flash memory', 0x40000, undefined],
  ])('is refused if what it starts is %s', async (_, start, bytes = new Uint8Array(0)) => {
    const { model, flash: bring } = bench({ holds: { [second]: programs.old, [Math.min(start, 0x3ffff)]: bytes } });
    const before = Buffer.from(model.flash.bytes);
    const message = expect.stringContaining('ota_1') as unknown;
    await expect(bring(raw(0x8000, moved(start)))).rejects.toMatchObject({ code: 'image-unknown', message });
    expect([before.equals(model.flash.bytes), model.ran.at(-1), model.rejected]).toEqual([true, 'old', []]);
  });

  test('is refused if it has no application partition', async () => {
    const table = partitionTable(twoSlots().filter(({ type }) => type !== 0));
    await expect(bench().flash(raw(0x8000, table))).rejects.toMatchObject({ code: 'image-unknown' });
  });

  test('is refused if its only application partition is empty', async () => {
    const table = partitionTable([{ name: 'factory', type: 0, subtype: 0, start: 0x30000, bytes: 0x8000 }]);
    await expect(bench().flash(raw(0x8000, table))).rejects.toMatchObject({ code: 'image-unknown' });
  });
});

describe('otadata alone', () => {
  const entryAnd = (bytes: Uint8Array): Uint8Array => Buffer.concat([bytes], 0x2000).fill(0xff, bytes.byteLength);
  const damaged = Buffer.from(otaEntry(3)).fill(0, 28, 29);

  test.each([
    ['is random', noisyProgram(0x2000, 9)],
    ['is random behind a valid entry', Buffer.concat([otaEntry(4)], 0x1400).fill(7, 0x1000)],
    ['is filled with zeros', new Uint8Array(0x2000)],
    ['has a wrong CRC', damaged],
    ['has the sequence number 0', otaEntry(0)],
    ['selects the other application', otaEntry(3)],
    [
      'declares both entries invalid',
      Buffer.concat([entryAnd(otaEntry(3, 'invalid')).subarray(0, 0x1000), otaEntry(4, 'aborted')]),
    ],
    ['selects the application that runs', otaEntry(4)],
    ['is blank', new Uint8Array(0x2000).fill(0xff)],
    ['tries an application once', otaEntry(4, 'new')],
  ])('is refused, and nothing is written, if it %s', async (_, bytes) => {
    const { model, flash: bring } = bench();
    const before = Buffer.from(model.flash.bytes);
    await expect(bring(raw(otadata, bytes))).rejects.toMatchObject({ code: 'image-unknown' });
    expect([before.equals(model.flash.bytes), model.ran.at(-1)]).toEqual([true, 'old']);
  });

  test('is refused if it starts an empty slot', async () => {
    const { model, flash: bring } = bench();
    model.flash.bytes.fill(0xff, first, second);
    await expect(bring(raw(otadata, otaEntry(3)))).rejects.toMatchObject({ code: 'image-unknown' });
    expect(model.ran.at(-1)).toBe('old');
  });
});

describe('otadata with an application', () => {
  const both = (entry: Uint8Array): Image =>
    makeImage('raw', [
      { address: otadata, bytes: entry },
      { address: first, bytes: programs.new },
    ]);

  test('is written if it starts the application', async () => {
    const { model, flash: bring, restart } = bench();
    expect(await bring(both(otaEntry(3)))).toMatchObject({ known: 'otadata', boots: 'ota_0' });
    restart();
    expect(model.ran.at(-1)).toBe('new');
  });

  test.each([
    ['starts another one', 'board-unsupported', otaEntry(4)],
    ['starts it only once', 'board-unsupported', otaEntry(3, 'new')],
    ['is invalid', 'image-unknown', noisyProgram(0x2000, 9)],
  ])('is refused if it %s', async (_, code, entry) => {
    const { model, flash: bring } = bench();
    await expect(bring(both(entry))).rejects.toMatchObject({ code });
    expect(model.ran.at(-1)).toBe('old');
  });
});

test('restores otadata as it was on the chip, even if it is invalid', async () => {
  const { model, flash: bring } = bench({ entries: [noisyProgram(4096, 9), otaEntry(2)] });
  const before = Buffer.from(model.flash.bytes.subarray(otadata, otadata + 64));
  const kept: (Image | undefined)[] = [];
  await bring(raw(first, programs.new), { keep: async (image) => void kept.push(image) });
  expect(model.ran.at(-1)).toBe('new');
  expect(await bring(kept[0] ?? raw(first, programs.new), { toStay: true })).toMatchObject({ boots: 'ota_1' });
  expect([before.equals(model.flash.bytes.subarray(otadata, otadata + 64)), model.ran.at(-1)]).toEqual([true, 'old']);
});
