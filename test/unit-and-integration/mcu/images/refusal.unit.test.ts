import { createHash, generateKeyPairSync, sign } from 'node:crypto';

import { describe, expect, test } from 'vitest';

import { checkFits } from '../../../../src/mcu/chip.ts';
import type { Chip } from '../../../../src/mcu/chip.ts';
import { makeImage } from '../../../../src/mcu/images/image.ts';
import { mcubootHeader } from '../../../../src/mcu/images/mcuboot.ts';
import { readImage } from '../../../../src/mcu/images/read-image.ts';
import { codeOf, elfFile, mcubootFile, text, tlv, tlvArea, uf2File } from './build.ts';

const data = { address: 0, bytes: Uint8Array.of(1, 2, 3, 4) };
const key = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const otherKey = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const twoBlocks = uf2File([{ address: 0, bytes: new Uint8Array(512) }], 0x57755a57);
const mixedFamilies = Buffer.concat([
  twoBlocks.subarray(0, 512),
  uf2File([{ address: 512, bytes: new Uint8Array(8) }], 1),
]);
const signed = mcubootFile(Buffer.from('application'), key.privateKey);
const tampered = Buffer.from(signed);
tampered.writeUInt8(0x41, 34);
const encrypted = Buffer.from(signed);
encrypted.writeUInt32LE(0x4, 16);
const region = signed.subarray(0, 32 + 'application'.length);
const withFlags = (flags: number): Buffer => {
  const flagged = Buffer.from(region);
  flagged.writeUInt32LE(flags, 16);
  return Buffer.concat([flagged, tlvArea(0x6907, [tlv(0x10, createHash('sha256').update(flagged).digest())])]);
};
const withoutDigest = Buffer.concat([region, tlvArea(0x6907, [tlv(0x24, new Uint8Array(64))])]);
const pure = Buffer.concat([region, tlvArea(0x6907, [tlv(0x25, Uint8Array.of(1)), tlv(0x24, new Uint8Array(64))])]);
const object = elfFile([data], 83);
object.writeUInt16LE(1, 16);

function ofBlocks(file: Buffer, ...numbers: readonly number[]): Buffer {
  return Buffer.concat(numbers.map((number) => file.subarray(number * 512, (number + 1) * 512)));
}

test('a UF2 file is refused with the number of a block that it has twice, and of one that it lacks', () => {
  expect(() => readImage(ofBlocks(twoBlocks, 0, 1, 1))).toThrow('the UF2 file has block 1 twice');
  expect(() => readImage(ofBlocks(twoBlocks, 1, 1))).toThrow('the UF2 file has block 1 twice');
  expect(() => readImage(ofBlocks(twoBlocks, 1))).toThrow('the UF2 file has 1 of 2 blocks');
});

describe('a UF2 file with MD5 checksums', () => {
  const bytes = Buffer.from(Array.from({ length: 600 }, (_, index) => index & 0xff));
  // The specification (github.com/microsoft/uf2, "MD5 checksum"), and esptool's uf2_writer.py with a shorter block
  const places = [
    ['at the end', () => 484],
    ['behind the data', (length: number) => 32 + length],
  ] as const;

  test.each(places)('is read, and refused with a flipped bit of its data: %s', (_, md5At) => {
    const file = uf2File([{ address: 0x1_0000, bytes }], 0xc47e5767, md5At);
    expect(readImage(file).segments).toEqual([{ address: 0x1_0000, bytes }]);
    file[32 + 7] = (file[32 + 7] ?? 0) ^ 4;
    expect(() => readImage(file)).toThrow('UF2 block 0: its data does not match its MD5 checksum');
  });

  test('is read where a checksum is about a larger region of the flash memory', () => {
    const file = uf2File([{ address: 0x1_0000, bytes }], 0xc47e5767, () => 484);
    for (let block = 0; block < 3; block += 1) file.writeUInt32LE(4096, block * 512 + 488);
    expect(readImage(file).sizeBytes).toBe(600);
  });

  test('is refused where its data leaves no room for them', () => {
    const file = uf2File([{ address: 0x1_0000, bytes }], 0xc47e5767, () => 484);
    file.writeUInt32LE(453, 16);
    expect(codeOf(() => readImage(file))).toBe('image-malformed');
  });
});

describe('an image file is', () => {
  test.each([
    ['image-checksum', 'a HEX line with a wrong checksum', text(':0100000001FF\n:00000001FF\n')],
    ['image-truncated', 'a HEX file without end record', text(':0100000001FE\n')],
    ['image-truncated', 'a HEX line that is cut', text(':020000000102\n:00000001FF\n')],
    ['image-overlap', 'a HEX file that gives a byte twice', text(':0100000001FE\n:0100000002FD\n:00000001FF\n')],
    ['image-malformed', 'text after the HEX end record', text(':0100000001FE\n:00000001FF\n:0100010001FD\n')],
    ['image-malformed', 'a HEX record that wraps around', text(':02FFFF000102FD\n:00000001FF\n')],
    ['image-malformed', 'a HEX record of unknown type', text(':0100000901F5\n:00000001FF\n')],
    ['image-empty', 'a HEX file without data', text(':00000001FF\n')],
    ['image-empty', 'a HEX file of an erased chip', text(':02000000FFFF00\n:00000001FF\n')],
    ['image-checksum', 'an S-record with a wrong checksum', text('S104000001FB\nS9030000FC\n')],
    ['image-truncated', 'an S-record file without end and count', text('S104000001FA\n')],
    ['image-truncated', 'an S-record file with data after its count', text('S104000001FA\nS5030001FB\nS104000101F9\n')],
    ['accepted', 'an S-record file with a count and without end (srec_cat)', text('S104000001FA\nS5030001FB\n')],
    [
      'image-truncated',
      'an S-record file with fewer records than it counts',
      text('S104000001FA\nS5030002FA\nS9030000FC\n'),
    ],
    ['image-truncated', 'an ELF file that is cut', elfFile([data], 83).subarray(0, -1)],
    ['image-malformed', 'an ELF object that was not linked', object],
    ['image-empty', 'an ELF file without loadable segment', elfFile([], 83)],
    ['image-overlap', 'an ELF file with overlapping segments', elfFile([data, { address: 2, bytes: data.bytes }], 83)],
    ['image-malformed', 'an ELF segment beyond 32 bits', elfFile([{ address: 0xfffffffe, bytes: data.bytes }], 83)],
    ['image-truncated', 'a UF2 file without its last block', twoBlocks.subarray(0, 512)],
    ['image-truncated', 'a UF2 file that is cut inside a block', twoBlocks.subarray(0, 700)],
    ['image-malformed', 'a UF2 file with a block twice', ofBlocks(twoBlocks, 0, 1, 1)],
    ['image-malformed', 'a UF2 file with a block in the place of another', ofBlocks(twoBlocks, 0, 0)],
    ['image-wrong-chip', 'a UF2 file for two families', mixedFamilies],
    ['image-digest', 'an MCUboot image that was changed', tampered],
    ['image-truncated', 'an MCUboot image that is cut', signed.subarray(0, 40)],
    ['image-malformed', 'an MCUboot image without TLVs', Buffer.concat([signed.subarray(0, 43), Buffer.alloc(40)])],
    ['image-unsupported', 'an encrypted MCUboot image', encrypted],
    ['image-unsupported', 'an MCUboot image with a pure signature and without a digest', pure],
    ['image-digest', 'an MCUboot image without a digest', withoutDigest],
    ['image-unsupported', 'an MCUboot image with the flag NON_BOOTABLE', withFlags(0x10)],
    ['image-unsupported', 'an MCUboot image that is compressed in two ways', withFlags(0x600)],
    ['accepted', 'an MCUboot image for the RAM', withFlags(0x20)],
    ['accepted', 'an MCUboot image for one address of the flash memory', withFlags(0x100)],
    ['accepted', 'an MCUboot image that is compressed', withFlags(0xc00)],
    ['image-address-missing', 'a raw binary without address', Uint8Array.of(1, 2, 3)],
    ['image-empty', 'an empty file', new Uint8Array()],
  ])('%s: %s', (code, _, file) => {
    expect(codeOf(() => readImage(file, { isRaw: true }))).toBe(code);
  });

  test('image-signature, where a key is set: another key, no signature, another format', () => {
    const options = { mcubootKey: otherKey.publicKey };
    expect(codeOf(() => readImage(signed, options))).toBe('image-signature');
    expect(codeOf(() => readImage(mcubootFile(Buffer.from('application')), options))).toBe('image-signature');
    expect(codeOf(() => readImage(text(':00000001FF\n'), options))).toBe('image-signature');
    expect(codeOf(() => readImage(signed, { mcubootKey: key.publicKey }))).toBe('accepted');
  });

  test('image-signature, where a pure signature is not one of the whole image by this key', () => {
    const { privateKey, publicKey } = generateKeyPairSync('ed25519');
    const file = (signedBytes: Uint8Array): Buffer => {
      const digest = tlv(0x10, createHash('sha256').update(region).digest());
      const signature = tlv(0x24, sign(undefined, signedBytes, privateKey));
      return Buffer.concat([region, tlvArea(0x6907, [digest, tlv(0x25, Uint8Array.of(1)), signature])]);
    };
    expect(codeOf(() => readImage(file(region), { mcubootKey: publicKey }))).toBe('accepted');
    expect(codeOf(() => readImage(file(region), { mcubootKey: otherKey.publicKey }))).toBe('image-signature');
    expect(codeOf(() => readImage(file(region.subarray(1)), { mcubootKey: publicKey }))).toBe('image-signature');
  });

  test('image-digest, where a protected TLV of an MCUboot image was changed', () => {
    const file = mcubootFile(Buffer.from('application'), undefined, tlvArea(0x6908, [tlv(0x50, Buffer.from('safe'))]));
    expect(mcubootHeader(file)).toMatchObject({ version: '1.2.3+4', securityCounter: 0x65_66_61_73 });
    expect(mcubootHeader(signed).securityCounter).toBeUndefined();
    const odd = mcubootFile(Buffer.from('application'), undefined, tlvArea(0x6908, [tlv(0x50, Buffer.from('odd'))]));
    expect(codeOf(() => mcubootHeader(odd))).toBe('image-malformed');
    const long = mcubootFile(
      Buffer.from('application'),
      undefined,
      tlvArea(0x6908, [tlv(0x50, Buffer.from('safe'))]).fill(0xff, 2, 4),
    );
    expect(codeOf(() => mcubootHeader(long))).toBe('image-malformed'); // its length is not the header's
    file.write('evil', file.indexOf('safe'));
    expect(codeOf(() => readImage(file))).toBe('image-digest');
  });
});

describe('before a board is touched, an image is', () => {
  const chip: Chip = {
    name: 'ATmega328P',
    id: '1e950f',
    elfMachine: 83,
    avrArchitecture: 5,
    uf2Families: [],
    flash: { start: 0, end: 0x8000 },
    application: { start: 0, end: 0x7e00 },
  };
  const at = (address: number): ReturnType<typeof makeImage> => makeImage('raw', [{ address, bytes: data.bytes }]);

  test.each([
    ['accepted', 'one that ends where the bootloader begins', at(0x7dfc)],
    ['image-overwrites-bootloader', 'one that ends in the bootloader', at(0x7dfd)],
    ['image-outside-chip', 'one that ends behind the flash', at(0x7ffd)],
    ['accepted', 'an ELF file for this machine', readImage(elfFile([data], 83))],
    ['image-wrong-chip', 'an ELF file for AVR chips with other interrupt vectors', readImage(elfFile([data], 83, 6))],
    ['image-wrong-chip', 'an ELF file for another machine', readImage(elfFile([data], 40))],
    ['image-wrong-chip', 'a UF2 file for another family', readImage(twoBlocks)],
  ])('%s: %s', (code, _, image) => {
    expect(codeOf(() => checkFits(image, chip))).toBe(code);
  });
});
