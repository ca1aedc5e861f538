import { createCipheriv } from 'node:crypto';

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { endOf, makeImage, sliceOf } from '../../../../src/mcu/images/image.ts';
import type { Image } from '../../../../src/mcu/images/image.ts';
import { readImage } from '../../../../src/mcu/images/read-image.ts';
import { requireVectors, stm32Chip } from '../../../../src/mcu/protocols/stm32/stm32-chips.ts';
import { codeOf, mcubootFile } from '../images/build.ts';
import { program } from './fault-matrix.ts';

const start = 0x0800_0000;
const held = program(256, 1);
const blank = new Uint8Array(256).fill(0xff);

function imageAt(address: number, bytes: Uint8Array): Image {
  return makeImage('raw', [{ address, bytes }]);
}

/** The verdict of an STM32F103 with pages of 1 KiB. */
function verdict(image: Image, before = held): string {
  return codeOf(() => requireVectors(image, stm32Chip(0x410, {}), before));
}

/** A program of 4 KiB with these vectors. */
function vectors(stack: number, reset: number): Image {
  const bytes = Buffer.from(program(4096, 1));
  bytes.writeUInt32LE(stack, 0);
  bytes.writeUInt32LE(reset, 4);
  return imageAt(start, bytes);
}

/** A program of 1 KiB for this address. */
function linkedAt(address: number): Uint8Array {
  const bytes = Buffer.from(program(1024, 1));
  bytes.writeUInt32LE(address + 0x101, 4);
  return bytes;
}

const header = new Uint8Array(512);

describe('an STM32 takes', () => {
  test.each([
    ['a whole program', imageAt(start, program(300, 1)), blank],
    ['one that is linked for the alias of its flash at 0', vectors(0x2000_5000, 0x101), held],
    ['an application behind the pages of its own bootloader', imageAt(start + 0x400, linkedAt(start + 0x400)), held],
    ['one with a header there', imageAt(start + 0x400, Buffer.concat([header, linkedAt(start + 0x600)])), held],
    ['one with the header of MCUboot there', readImage(mcubootFile(header), { address: start + 0x4000 }), held],
    ['other data there in Intel HEX', makeImage('intel-hex', [{ address: start + 0x400, bytes: header }]), held],
  ])('%s', (_, image, before) => {
    expect(verdict(image, before)).toBe('accepted');
  });
});

/** Memory maps of ST's packs (probe-rs) and stlink: for a product identifier, the ends of its RAM. */
test.each([
  [0x410, [0x2000_5000]],
  [0x412, [0x2000_2800]],
  [0x414, [0x2001_0000]],
  [0x418, [0x2001_0000]],
  [0x440, [0x2000_2000]],
  [0x444, [0x2000_1000]],
  [0x448, [0x2000_4000]],
  [0x422, [0x2000_a000, 0x1000_2000]],
  [0x413, [0x2002_0000, 0x1001_0000]],
  [0x423, [0x2001_0000]],
  [0x433, [0x2001_8000]],
  [0x431, [0x2002_0000]],
  [0x460, [0x2000_9000]],
  [0x466, [0x2000_2000]],
  [0x468, [0x2000_8000, 0x1000_2800]],
  [0x435, [0x2001_0000, 0x1000_4000]],
  // the linker scripts of ST for the Nucleo-L476RG begin the stack at the last byte, 0x20017fff
  [0x415, [0x2001_8000, 0x1000_8000]],
])('the STM32 with product identifier %i takes programs whose stack is in its own RAM', (productId, ends) => {
  const chip = stm32Chip(productId, {});
  const accepts = (stack: number): boolean =>
    codeOf(() => requireVectors(vectors(stack, start + 0x101), chip, held)) === 'accepted';
  for (const end of ends) {
    expect([end - 1, end, end + 1].map(accepts)).toEqual([true, true, false]);
    expect([0x2000_0000, 0x2000_0004].map(accepts)).toEqual([false, true]);
  }
  expect([0x1000_0004, 0x1002_0000, 0x2408_0000, 0x3fff_fff0].map(accepts)).toEqual([
    ends.length > 1,
    false,
    false,
    false,
  ]);
});

test('takes a program whose stack is in the RAM of a clone only if that is configured', () => {
  const accepts = (ramBytes?: number): string =>
    codeOf(() => requireVectors(vectors(0x2001_8000, start + 0x101), stm32Chip(0x410, { ramBytes }), held));
  expect([accepts(), accepts(0x1_8000), accepts(0x1_7ff0)]).toEqual([
    'image-overwrites-bootloader',
    'accepted',
    'image-overwrites-bootloader',
  ]);
});

describe('an STM32 takes no image that it would not start:', () => {
  test.each([
    ['without its vector table', imageAt(start + 0x10c, program(4096, 1))],
    ['shifted by 512 bytes', imageAt(start + 0x200, program(4096, 1))],
    ['that ends the first page', imageAt(start + 0x3ff, Uint8Array.of(1))],
    ['with blank vectors', vectors(0xffff_ffff, 0xffff_ffff)],
    ['with a blank reset vector', vectors(0x2000_5000, 0xffff_ffff)],
    ['with the reset vector 0', vectors(0x2000_5000, 0)],
    ['with an even reset vector', vectors(0x2000_5000, start + 0x100)],
    ['with a reset vector into the vectors', vectors(0x2000_5000, start + 5)],
    ['that is linked for another address', vectors(0x2000_5000, 0x0801_0001)],
    ['with the stack in the flash memory', vectors(start + 0x1000, start + 0x101)],
    ['with the header of MCUboot', imageAt(start, mcubootFile(new Uint8Array(300)))],
    ['of zeros', imageAt(start, new Uint8Array(300))],
  ])('%s', (_, image) => {
    expect(verdict(image)).toBe('image-overwrites-bootloader');
  });

  test('inside of a large first sector', () => {
    const chip = stm32Chip(0x413, {});
    const at = (address: number): string =>
      codeOf(() => requireVectors(imageAt(address, linkedAt(address)), chip, held));
    expect([at(start + 0x3c00), at(start + 0x4000)]).toEqual(['image-overwrites-bootloader', 'accepted']);
  });

  test('behind a bootloader that is not there', () => {
    expect(verdict(imageAt(start + 0x800, program(300, 1)), blank)).toBe('image-unsupported');
  });

  test.each([
    ['zeros', new Uint8Array(256)],
    ['a stack pointer of another chip', vectors(0x2002_0000, start + 0x101)],
    ['an application that begins in the image', vectors(0x2000_5000, start + 0x901)],
    ['one that begins behind it', vectors(0x2000_5000, start + 0x4001)],
    ['a reset vector into the vectors', vectors(0x2000_5000, start + 5)],
    ['data', Buffer.from('calibration data, and no program'.repeat(8))],
  ])('behind a bootloader that is not one, but %s', (_, there) => {
    const before = there instanceof Uint8Array ? there : sliceOf(there, start, start + 256);
    expect(verdict(imageAt(start + 0x800, linkedAt(start + 0x800)), before)).toBe('image-unsupported');
  });

  test.each([
    ['linked for the start of the chip', program(300, 1)],
    ['of zeros', new Uint8Array(8192)],
    [
      'of random bytes',
      createCipheriv('aes-128-ctr', header.subarray(0, 16), header.subarray(0, 16)).update(new Uint8Array(1 << 20)),
    ],
  ])('as a raw binary behind its first page: one %s', (_, bytes) => {
    expect(verdict(imageAt(start + 0x800, bytes))).toBe('image-unsupported');
  });

  test('with any stack and a reset vector outside of its code', () => {
    const outside = fc.integer({ min: 0, max: 0xffff_ffff }).filter((reset) => {
      const { segments } = vectors(0, 0);
      const at = reset < start ? reset + start : reset;
      return reset % 2 === 0 || !segments.some((segment) => at >= segment.address && at < endOf(segment));
    });
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 0xffff_ffff }), outside, (stack, reset) => {
        expect(verdict(vectors(stack, reset))).toBe('image-overwrites-bootloader');
      }),
    );
  });
});
