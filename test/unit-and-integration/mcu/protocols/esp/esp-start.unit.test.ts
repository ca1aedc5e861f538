import { describe, expect, test } from 'vitest';

import { probe } from '../../../../../src/mcu/flash/flash.ts';
import { espApplication, withDigest } from '../../../../fakes/boards/models/esp-image.ts';
import { espTraits } from '../../../../fakes/boards/models/esp-traits.ts';
import { noisyProgram } from '../fault-matrix.ts';
import { bench, first, imageAt, programs, second, signal } from './esp-bench.ts';

const chips = { esp32: 0, esp32c3: 5, esp32s3: 9 } as const;
type Named = keyof typeof chips;
/** The first and the last revision in the header, and the first one as older headers state it. */
type Stated = readonly [first: number, last: number, oldFirst: number];

/** An application with these fields of esp_image_header_t. */
function applicationFor(chip: Named, [from, to, oldFrom]: Stated): Uint8Array {
  const image = Buffer.from(espApplication(noisyProgram(9_000, 2), chips[chip]));
  image.writeUInt8(oldFrom, 14);
  image.writeUInt16LE(from, 15);
  image.writeUInt16LE(to, 17);
  return withDigest(image);
}

function signed(image: Uint8Array): Uint8Array {
  const sectors = Math.ceil(image.byteLength / 4096);
  const whole = Buffer.alloc((sectors + 1) * 4096, 0xff);
  whole.set(image);
  whole.writeUInt8(0xe7, sectors * 4096);
  return whole;
}

describe('the revision of a chip', () => {
  test.each([
    ['esp32', 0],
    ['esp32', 100],
    ['esp32', 203],
    ['esp32', 301],
    ['esp32c3', 4],
    ['esp32c3', 101],
    ['esp32s3', 2],
    ['esp32s3', 115],
  ] as const)('of an %s is known: %i', async (name, revision) => {
    const { board } = bench({ traits: espTraits(name, { revision }) });
    expect((await probe(board, signal)).chip.revision).toBe(revision);
  });

  test('of the first ESP32-S3 is 0.0, though other fuses are burned there', async () => {
    const traits = espTraits('esp32s3');
    const fuses = new Map([
      [0x6000_7050, 1 << 24],
      [0x6000_7058, 3 << 24],
      [0x6000_706c, 1],
    ]);
    expect((await probe(bench({ traits: { ...traits, fuses } }).board, signal)).chip.revision).toBe(0);
  });
});

describe('an application that states revisions', () => {
  test.each<[Named, number, Stated]>([
    ['esp32', 300, [300, 0xffff, 0]],
    ['esp32', 301, [100, 399, 0]],
    ['esp32', 100, [0, 0xffff, 1]],
    ['esp32', 0, [0, 0, 0]],
    ['esp32c3', 4, [3, 199, 0]],
    ['esp32c3', 4, [0, 0, 3]],
    ['esp32s3', 2, [0, 99, 0]],
  ])('is started by an %s of revision %i within %j', async (name, revision, stated) => {
    const { flash } = bench({ traits: espTraits(name, { revision }) });
    const image = imageAt(first, applicationFor(name, stated));
    expect(await flash(image)).toMatchObject({ known: 'otadata', boots: 'ota_0' });
  });

  test.each<[Named, number, Stated]>([
    ['esp32', 101, [300, 0xffff, 3]],
    ['esp32', 0, [0, 0xffff, 1]],
    ['esp32', 100, [0, 99, 0]],
    ['esp32c3', 4, [101, 199, 0]],
    ['esp32c3', 2, [0, 0, 3]],
    ['esp32s3', 2, [100, 199, 0]],
  ])('is refused by an %s of revision %i outside of %j, which stays as it is', async (name, revision, stated) => {
    const { model, flash } = bench({ traits: espTraits(name, { revision }) });
    const before = Uint8Array.from(model.flash.bytes);
    await expect(flash(imageAt(first, applicationFor(name, stated)))).rejects.toMatchObject({
      code: 'image-wrong-chip',
    });
    expect(model.flash.bytes).toEqual(before);
  });

  test.each<[string, Stated]>([
    [' v3.0 to v3.99', [300, 399, 3]],
    [' v2.0 or later', [0, 0xffff, 2]],
  ])('is refused for this reason: it is for an ESP32%s, and the board has another revision', async (named, stated) => {
    const { flash } = bench({ traits: espTraits('esp32', { revision: 101 }) });
    await expect(flash(imageAt(first, applicationFor('esp32', stated)))).rejects.toThrow(
      `the image is made for the ESP chip number 0${named}, the board is ESP32 v1.1`,
    );
  });

  test('is refused by another chip without a word on revisions', async () => {
    const { flash } = bench({ traits: espTraits('esp32') });
    const image = imageAt(first, applicationFor('esp32s3', [0, 0xffff, 0]));
    await expect(flash(image)).rejects.toThrow('the image is made for the ESP chip number 9, the board is ESP32 v0.0');
  });
});

describe('a chip with Secure Boot', () => {
  const traits = espTraits('esp32', { securesBoot: true });
  const holds = { [second]: signed(programs.old) };

  test('gets no application without a signature, and is not changed', async () => {
    const { model, flash } = bench({ traits, holds });
    const before = Uint8Array.from(model.flash.bytes);
    await expect(flash(imageAt(first))).rejects.toMatchObject({
      code: 'image-unsupported',
      message: 'board: ESP32 starts only signed applications (Secure Boot), and the one for ota_0 is not',
    });
    expect(model.flash.bytes).toEqual(before);
  });

  test('gets one with a signature, and starts it', async () => {
    const { model, flash } = bench({ traits, holds });
    expect(await flash(imageAt(first, signed(programs.new)))).toMatchObject({ known: 'otadata', boots: 'ota_0' });
    expect(model.ran.at(-1)).toBe('new');
  });
});
