import { expect, test } from 'vitest';

import { checkFits } from '../../../../src/mcu/chip.ts';
import { readImage } from '../../../../src/mcu/images/read-image.ts';
import { espChip, espFamilies, flashBytesOf } from '../../../../src/mcu/protocols/esp/esp-chips.ts';
import { stm32Chip } from '../../../../src/mcu/protocols/stm32/stm32-chips.ts';
import { codeOf, uf2File } from '../images/build.ts';

const kib = 1024;
const flashStart = 0x0800_0000;

/** ST AN2606, and dev_table.c of stm32flash: product identifier, KiB of flash memory, KiB of the first page, pages. */
test.each([
  [0x410, 128, 1, 128],
  [0x412, 32, 1, 32],
  [0x414, 512, 2, 256],
  [0x418, 256, 2, 128],
  [0x440, 64, 1, 64],
  [0x444, 32, 1, 32],
  [0x448, 128, 2, 64],
  [0x422, 256, 2, 128],
  [0x413, 1024, 16, 12],
  [0x423, 256, 16, 6],
  [0x433, 512, 16, 8],
  [0x431, 512, 16, 8],
  [0x460, 128, 2, 64],
  [0x466, 64, 2, 32],
  [0x468, 128, 2, 64],
  [0x435, 256, 2, 128],
  [0x415, 1024, 2, 512],
])('the STM32 with product identifier %i has %i KiB in pages of %i KiB', (productId, flashKib, pageKib, pages) => {
  const chip = stm32Chip(productId, {});
  expect(chip.flash).toEqual({ start: flashStart, end: flashStart + flashKib * kib });
  expect(chip.pages[0]).toEqual({ start: flashStart, end: flashStart + pageKib * kib });
  expect(chip.pages).toHaveLength(pages);
});

/** uf2families.json: the F407 and the F411 have families of their own, and belong to the F4, too. */
test.each([
  [0x413, [0x57755a57, 0x6d0922fa, 0x8fb060fe], 0x2dc309c5],
  [0x431, [0x57755a57, 0x2dc309c5, 0x06d1097b], 0x6d0922fa],
  [0x423, [0x57755a57], 0x6d0922fa],
])('the STM32 with product identifier %i takes UF2 files of its families alone', (productId, families, other) => {
  const verdicts = [...families, other].map((family) =>
    codeOf(() => {
      const segments = [{ address: flashStart, bytes: new Uint8Array(256) }];
      checkFits(readImage(uf2File(segments, family)), stm32Chip(productId, {}));
    }),
  );
  expect(verdicts).toEqual([...families.map(() => 'accepted'), 'image-wrong-chip']);
});

/** RM0351, "Flash module organization": the second bank begins with page 256. */
test.each([
  [undefined, 1024],
  [1024, 1024],
  [512, 256],
  [256, 128],
])('of an STM32L47x with flash_bytes of %s KiB, the pages with known numbers are used', (flashKib, usedKib) => {
  const { flash, pages } = stm32Chip(0x415, { flashBytes: flashKib === undefined ? undefined : flashKib * kib });
  expect(flash.end - flash.start).toBe(usedKib * kib);
  expect(pages.at(-1)?.end).toBe(flash.end);
});

/** The sizes that esptool knows (`DETECTED_FLASH_SIZES`), in KiB. */
test.each([
  [0x12, 256],
  [0x16, 4096],
  [0x18, 16_384],
  [0x1c, 262_144],
  [0x20, 65_536],
  [0x22, 262_144],
  [0x32, 256],
  [0x3a, 65_536],
  [0x00, undefined],
  [0x1d, undefined],
])('a flash chip with the size byte %i has %s KiB', (code, sizeKib) => {
  expect(flashBytesOf((code << 16) | 0x40_ef)).toBe(sizeKib === undefined ? undefined : sizeKib * kib);
});

test('no image reaches beyond the 16 MiB that loaders in ROM address', () => {
  for (const family of espFamilies) {
    const chip = espChip({ family, revision: 0, securesBoot: false }, 2 ** 25);
    expect(chip.application.end).toBe(2 ** 24);
  }
});
