import { describe, expect, test } from 'vitest';

import { espImage } from '../../../../fakes/boards/models/esp-image.ts';
import { noisyProgram } from '../fault-matrix.ts';
import { bench, programs, raw, second } from './esp-bench.ts';

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
