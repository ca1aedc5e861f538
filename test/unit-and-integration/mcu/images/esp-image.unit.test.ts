import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { checkFits } from '../../../../src/mcu/chip.ts';
import { hasTrailer, isApplication } from '../../../../src/mcu/images/esp-image.ts';
import { readImage } from '../../../../src/mcu/images/read-image.ts';
import { avrChip } from '../../../../src/mcu/protocols/avr-chips.ts';
import { espChip, espFamilies } from '../../../../src/mcu/protocols/esp/esp-chips.ts';
import type { EspFamily, EspIdentity } from '../../../../src/mcu/protocols/esp/esp-chips.ts';
import { stm32Chip } from '../../../../src/mcu/protocols/stm32/stm32-chips.ts';
import { espApplication, espImage, isStartedBy, withDigest } from '../../../fakes/boards/models/esp-image.ts';
import { espTraits } from '../../../fakes/boards/models/esp-traits.ts';
import { codeOf, uf2File } from './build.ts';

const contents = Uint8Array.from({ length: 5000 }, (_, index) => (index * 31) & 0xff);
const numbers = { ESP8266: 'esp8266', ESP32: 0, 'ESP32-C3': 5, 'ESP32-S3': 9, 'ESP32-C6': 13 } as const;
const at = { address: 0x1_0000 };

function identityOf(family: EspFamily): EspIdentity {
  return { family, revision: 0, securesBoot: false };
}

describe('an ESP image', () => {
  const chips = [
    ...espFamilies.map((family) => espChip(identityOf(family), 4 << 20)),
    stm32Chip(0x410, {}),
    avrChip(Uint8Array.of(0x1e, 0x98, 0x01), { kind: 'wiring' }, {}),
  ];

  test.each(chips)('is accepted by an $name only if it is made for it', (chip) => {
    const accepted = Object.entries(numbers).filter(([, number]) => {
      const image = readImage(espImage(contents, number), { address: chip.flash.start + 0x1_0000 });
      return codeOf(() => checkFits(image, chip)) === 'accepted';
    });
    expect(accepted.map(([name]) => name)).toEqual(Object.keys(numbers).filter((name) => name === chip.name));
  });

  test('needs an address, but no name', () => {
    const image = espImage(contents, 9);
    expect(readImage(image, at)).toMatchObject({ format: 'esp', madeFor: { kind: 'esp-chip', chip: 9 } });
    expect(codeOf(() => readImage(image))).toBe('image-address-missing');
  });

  test.each(espFamilies)('replaces what the ROM of an $name starts only if it is a bootloader', (family) => {
    const chip = espChip(identityOf(family), 4 << 20);
    const address = family.bootAddress;
    const application = Uint8Array.from(contents);
    application.set([0x32, 0x54, 0xcd, 0xab], family.chipId === 'esp8266' ? 16 : 0);
    const codeAt = (file: Uint8Array, start: number): string =>
      codeOf(() => chip.checkStart?.(readImage(file, { address: start, isRaw: true })));
    expect(codeAt(espImage(contents, family.chipId), address)).toBe('accepted');
    expect(codeAt(espImage(application, family.chipId), address)).toBe('image-overwrites-bootloader');
    expect(codeAt(contents, address)).toBe('image-overwrites-bootloader');
    expect(codeAt(espImage(contents, family.chipId), address + 0x100)).toBe('image-overwrites-bootloader');
    expect(codeAt(contents.subarray(0, 9), address + 0xff0)).toBe('image-overwrites-bootloader');
    expect(codeAt(espImage(contents, 13), address)).toBe('image-wrong-chip');
    expect(codeAt(espImage(application, family.chipId), 0x1_0000)).toBe('accepted');
  });

  test.each([
    ['ESP32', 0, 0x3f40_0020, true],
    ['ESP32', 0, 0x400d_0020, true],
    ['ESP32', 0, 0x3fff_0000, false],
    ['ESP32', 0, 0x4008_0000, false],
    ['ESP32-C3', 5, 0x3c00_0020, true],
    ['ESP32-C3', 5, 0x4200_0020, true],
    ['ESP32-C3', 5, 0x403d_0000, false],
    ['ESP32-S3', 9, 0x43ff_fff0, true],
    ['ESP32-S3', 9, 0x4037_8000, false],
  ])('for an %s (%i) that is loaded to %i is an application: %s', (_, chip, loadedTo, expected) => {
    const image = espImage(contents, chip, loadedTo);
    expect(isApplication(image)).toBe(expected);
    expect(isApplication(image.subarray(0, 4000))).toBe(false);
    const codes = espFamilies
      .filter(({ chipId }) => chipId === chip)
      .map((family) => {
        const { checkStart } = espChip(identityOf(family), 4 << 20);
        return codeOf(() => checkStart?.(readImage(image, { address: family.bootAddress })));
      });
    expect(codes).toEqual([expected ? 'image-overwrites-bootloader' : 'accepted']);
  });

  test('may have a digest, and data behind itself', () => {
    const behind = Buffer.concat([withDigest(espImage(contents)), new Uint8Array(4096).fill(0xff)]);
    expect(readImage(behind, at)).toMatchObject({ format: 'esp', sizeBytes: behind.byteLength });
    behind.writeUInt8(behind.readUInt8(20) ^ 1, 20);
    expect(codeOf(() => readImage(behind, at))).toBe('image-digest');
  });

  // Regression: the model of a chip knew only images of one segment, and no real application started there.
  test.each([0, 5, 9])('of four segments with a digest is an application for chip %i, and starts there', (chip) => {
    const image = espApplication(contents.subarray(0, 4996), chip);
    const traits = espTraits('esp32');
    expect([image[1], image[23]]).toEqual([4, 1]);
    expect(readImage(image, at)).toMatchObject({ madeFor: { kind: 'esp-chip', chip }, sizeBytes: image.byteLength });
    const erased = Buffer.concat([image, Buffer.alloc(4096, 0xff)]);
    expect([isApplication(image), hasTrailer(erased), isStartedBy(erased, traits)]).toEqual([true, false, true]);
    for (const place of [24, 40, 1300, 2600, 4000, image.byteLength - 40, image.byteLength - 1]) {
      const damaged = Buffer.from(image);
      damaged.writeUInt8(damaged.readUInt8(place) ^ 1, place);
      expect([place, isStartedBy(damaged, traits)]).toEqual([place, false]);
      expect([place, codeOf(() => readImage(damaged, at))]).toEqual([
        place,
        expect.stringMatching(/^image-(dig|check)/),
      ]);
    }
  });

  test.each([0, 'esp8266'] as const)('for chip %s is never accepted if truncated or damaged, even as raw', (chip) => {
    const image = espImage(contents, chip);
    const raw = { ...at, isRaw: true };
    fc.assert(
      fc.property(fc.integer({ min: 2, max: image.byteLength - 1 }), (size) => {
        expect(codeOf(() => readImage(image.subarray(0, size), raw))).toMatch(/^image-(truncated|checksum)$/);
      }),
      { numRuns: 100 },
    );
    const damaged = Uint8Array.from(image);
    damaged[2000] = (damaged[2000] ?? 0) ^ 0x10;
    expect(codeOf(() => readImage(damaged, raw))).toBe('image-checksum');
  });
});

describe('a UF2 file', () => {
  const esp32s3 = 0xc47e_5767;
  const file = uf2File([{ address: 0x1_0000, bytes: contents }], esp32s3);
  const chip = espChip(identityOf(espFamilies[3] ?? expect.fail()), 4 << 20);
  const withFlags = (flags: number): Buffer => {
    const changed = Buffer.from(file);
    for (let start = 0; start < file.byteLength; start += 512) changed.writeUInt32LE(flags, start + 8);
    return changed;
  };

  test.each([
    ['accepted', 'for this chip', file],
    ['accepted', 'with digests of regions and extension tags', withFlags(0xe000)],
    ['image-wrong-chip', 'for another chip', uf2File([{ address: 0x1_0000, bytes: contents }], 0x1c5f_21b0)],
    ['image-wrong-chip', 'that does not name its chip', withFlags(0)],
    ['image-unsupported', 'that contains files', withFlags(0x3000)],
    ['image-empty', 'of comments', withFlags(0x2001)],
  ])('is %s: one %s', (code, _, bytes) => {
    expect(codeOf(() => checkFits(readImage(bytes), chip))).toBe(code);
  });

  test('counts comments among its blocks, and does not write them', () => {
    const commented = Buffer.from(file);
    commented.writeUInt32LE(0x2001, file.byteLength - 512 + 8);
    expect(readImage(commented).sizeBytes).toBe(19 * 256);
  });
});
