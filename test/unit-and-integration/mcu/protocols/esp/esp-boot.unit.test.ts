import { describe, expect, test } from 'vitest';

import { planFlash, probe } from '../../../../../src/mcu/flash/flash.ts';
import { makeImage } from '../../../../../src/mcu/images/image.ts';
import type { Image } from '../../../../../src/mcu/images/image.ts';
import { otaEntry, partitionTable, twoSlots } from '../../../../fakes/boards/models/esp-bootloader.ts';
import { espApplication, espImage } from '../../../../fakes/boards/models/esp-image.ts';
import { noisyProgram } from '../fault-matrix.ts';
import { bench, factory, first, imageAt, otadata, programs, raw, second, signal, stale } from './esp-bench.ts';

test('writes in the model the entry that is found on chips', () => {
  const dumped = `01000000${'ff'.repeat(20)}${'ff'.repeat(4)}9a984347`;
  expect(Buffer.from(otaEntry(1)).toString('hex')).toBe(dumped);
});

describe('an application for the slot that does not start', () => {
  test.each([
    ['two valid entries', [otaEntry(1), otaEntry(2)]],
    ['high sequence numbers', [otaEntry(41), otaEntry(42)]],
    ['an entry with a wrong CRC', [undefined, otaEntry(2)]],
    ['one that failed', [otaEntry(2, 'valid'), otaEntry(3, 'aborted')]],
    ['one that was declared invalid', [otaEntry(3, 'invalid'), otaEntry(2)]],
  ] as const)('is selected: %s', async (_, entries) => {
    const { model, flash: bring, restart } = bench({ entries });
    restart();
    expect(model.ran.at(-1)).toBe('old');
    expect(await bring(imageAt(first))).toMatchObject({ known: 'otadata', boots: 'ota_0' });
    expect(model.ran.at(-1)).toBe('new');
    restart();
    expect(model.ran.at(-1)).toBe('new');
    expect([model.violations, model.rejected]).toEqual([[], []]);
  });

  test('stays selected with a bootloader that rolls back', async () => {
    const { model, flash: bring, restart } = bench({ rollback: true });
    await bring(imageAt(first));
    restart();
    restart();
    expect(model.ran.slice(-3)).toEqual(['new', 'new', 'new']);
  });

  test.each([true, false])(
    'is selected while another one waits for its confirmation, rollback: %s',
    async (rollback) => {
      const holds = { [first]: programs.old, [second]: stale };
      const {
        model,
        flash: bring,
        restart,
      } = bench({ rollback, holds, entries: [otaEntry(1), otaEntry(2, 'pending')] });
      await bring(imageAt(first));
      restart();
      expect(model.ran.slice(-2)).toEqual(['new', 'new']);
    },
  );

  test('is selected where a factory application starts, and the other way round', async () => {
    const table = twoSlots(true);
    const { model, flash: bring } = bench({ table, holds: { [factory]: programs.old }, entries: [] });
    expect(await bring(imageAt(second))).toMatchObject({ boots: 'ota_1' });
    expect(model.ran.at(-1)).toBe('new');
    expect(await bring(imageAt(factory, programs.old))).toMatchObject({ boots: 'factory' });
    expect(model.ran.at(-1)).toBe('old');
  });

  // bootloader_utility.c counts the slots, and does not search for their subtypes; 0xffffffff is a blank entry
  test.each([
    [
      'the slots have a gap',
      { table: [...twoSlots().slice(0, -1), { name: 'ota_2', type: 0, subtype: 0x12, start: second, bytes: 0x10000 }] },
      second,
    ],
    ['the sequence numbers are used up', { entries: [otaEntry(0xffff_fffd), otaEntry(0xffff_fffe)] }, first],
  ])('is refused if nothing can select it, since %s', async (_, layout, address) => {
    const { model, flash: bring } = bench(layout);
    const before = Uint8Array.from(model.flash.bytes);
    await expect(bring(imageAt(address))).rejects.toMatchObject({ code: 'board-unsupported' });
    expect(Buffer.compare(model.flash.bytes, before)).toBe(0);
  });

  test('keeps the previous program startable without its file', async () => {
    const { model, flash: bring } = bench();
    const kept: (Image | undefined)[] = [];
    await bring(imageAt(first), { keep: async (image) => void kept.push(image) });
    expect(kept).toHaveLength(1);
    expect(await bring(kept[0] ?? imageAt(first), { toStay: true })).toMatchObject({ boots: 'ota_1' });
    expect(model.ran.at(-1)).toBe('old');
  });

  test('never makes the chip start half of it, wherever power is lost', async () => {
    for (let writes = 0; ; writes += 1) {
      const { model, flash: bring, restart } = bench();
      model.dieAtWrite(writes, true);
      const ended = await bring(imageAt(first)).then(
        () => true,
        () => false,
      );
      if (ended) break;
      restart();
      expect(model.ran.at(-1)).toBe('old');
      await bring(imageAt(first));
      expect(model.ran.at(-1)).toBe('new');
      expect(writes).toBeLessThan(50);
    }
  });
});

describe('an application for the slot that starts', () => {
  test('changes nothing in otadata, and stores no backup', async () => {
    const { model, flash: bring } = bench();
    const before = Buffer.from(model.flash.bytes.subarray(otadata, otadata + 0x2000));
    const kept: (Image | undefined)[] = [];
    const report = await bring(imageAt(second), { keep: async (image) => void kept.push(image) });
    expect(report).toMatchObject({ known: 'otadata', boots: 'ota_1' });
    expect(before.equals(model.flash.bytes.subarray(otadata, otadata + 0x2000))).toBe(true);
    expect([kept, model.ran.at(-1)]).toEqual([[], 'new']);
  });

  test('counts as held if it is the same', async () => {
    const { board, flash: bring } = bench();
    expect(await bring(imageAt(second, programs.old))).toMatchObject({ unitsWritten: 0 });
    expect(await planFlash(imageAt(second, programs.old), board, signal)).toMatchObject({ unitsDifferent: 0 });
  });
});

test.each([
  ['that starts', second],
  ['that does not start', first],
])('rejects a file without an ESP image for the slot %s', async (_, address) => {
  const { model, flash: bring } = bench();
  const file = makeImage('raw', [{ address, bytes: noisyProgram(9_000, 4) }]);
  await expect(bring(file)).rejects.toMatchObject({ code: 'image-unknown' });
  expect(model.ran.at(-1)).toBe('old');
});

test('accepts an application without a descriptor, which runs from the flash memory', async () => {
  const older = espImage(noisyProgram(9_000, 2), 0, 0x400d_0020);
  const { model, flash: bring } = bench();
  expect(await bring(imageAt(first, older))).toMatchObject({ known: 'otadata', boots: 'ota_0' });
  expect(Buffer.compare(model.flash.bytes.subarray(first, first + older.byteLength), older)).toBe(0);
});

test('counts an application in a slot that does not start as different', async () => {
  const { board } = bench({ holds: { [first]: programs.new, [second]: programs.old } });
  expect(await planFlash(imageAt(first), board, signal)).toMatchObject({ unitsDifferent: 1 });
});

test('reports in a probe which slot starts', async () => {
  expect(await probe(bench().board, signal)).toMatchObject({ boots: 'ota_1' });
  expect(await probe(bench({ entries: [] }).board, signal)).toMatchObject({ boots: 'ota_0' });
  expect(await probe(bench({ table: twoSlots(true), entries: [] }).board, signal)).toMatchObject({ boots: 'factory' });
});

test('starts the only application of a table without otadata', async () => {
  const table = twoSlots(true).filter(({ name }) => name !== 'otadata');
  const { model, flash: bring } = bench({ table, holds: { [factory]: programs.old } });
  expect(await bring(imageAt(factory))).toMatchObject({ known: 'read-back', boots: 'factory' });
  expect(model.ran.at(-1)).toBe('new');
  await expect(bring(imageAt(first))).rejects.toMatchObject({ code: 'board-unsupported' });
  expect(model.ran.at(-1)).toBe('new');
});

test('selects nothing for an image that is not an application', async () => {
  const { model, flash: bring } = bench();
  const before = Buffer.from(model.flash.bytes.subarray(otadata, otadata + 0x2000));
  const data = makeImage('raw', [{ address: 0x9000, bytes: new Uint8Array(4096).fill(1) }]);
  expect(await bring(data)).toMatchObject({ boots: 'ota_1' });
  expect(before.equals(model.flash.bytes.subarray(otadata, otadata + 0x2000))).toBe(true);
});

test('starts what a file for the whole chip selects with its own otadata', async () => {
  const { model, flash: bring } = bench();
  const whole = Buffer.alloc(0x28000, 0xff);
  whole.set(partitionTable(twoSlots()), 0x8000);
  whole.set(programs.new, first);
  expect(await bring(makeImage('raw', [{ address: 0x8000, bytes: whole.subarray(0x8000) }]))).toMatchObject({
    boots: 'ota_0',
  });
  expect(model.ran.at(-1)).toBe('new');
});

test('claims nothing about slots without a partition table', async () => {
  const { model, flash: bring } = bench();
  model.flash.bytes.fill(0xff, 0x8000, 0x8c00);
  expect(await bring(imageAt(first))).toMatchObject({ known: 'sent', boots: undefined });
});

describe('an ESP image where nothing would start it', () => {
  const damaged = Uint8Array.from(programs.new).fill(0, 3000, 3001);
  const bootloader = espImage(noisyProgram(8_000, 4));
  const incomplete: unknown = expect.stringMatching(/^image-(truncated|checksum)$/);
  const tooLarge = espApplication(noisyProgram(70_000, 5));
  const merged = (application: Uint8Array): Uint8Array => {
    const file = new Uint8Array(0xf000 + application.byteLength).fill(0xff);
    file.set(bootloader);
    file.set(partitionTable(twoSlots()), 0x7000);
    file.set(application, 0xf000);
    return file;
  };
  const withPrograms = {
    entries: [otaEntry(1)],
    holds: { 0x1000: espImage(noisyProgram(8_000, 5)), [first]: programs.old, [second]: stale },
  };

  const refused: readonly (readonly [string, unknown, Image])[] = [
    ['in a partition', 'image-unknown', raw(0x11000, programs.new)],
    ['just behind the start of a partition', 'image-unknown', raw(0x10100, programs.new)],
    ['in the free part of a partition', 'image-unknown', raw(0x18000, programs.new)],
    ['over data partitions', 'image-unknown', raw(0x9000, programs.new)],
    ['behind the partitions', 'image-unknown', raw(0x38000, programs.new)],
    ['in the bootloader', 'image-overwrites-bootloader', raw(0x1100, programs.new)],
    ['behind the start of the bootloader', 'image-overwrites-bootloader', raw(0x4000, programs.new)],
    ['over the partition table', 'image-overwrites-bootloader', raw(0x8c00, programs.new.subarray(0, 100))],
    ['damaged, for the slot that starts', 'image-checksum', raw(first, damaged)],
    ['damaged, for the other slot', 'image-checksum', raw(second, damaged)],
    ['truncated', incomplete, raw(first, programs.new.subarray(0, 6000))],
    ['for another chip', 'image-wrong-chip', raw(first, espApplication(noisyProgram(900, 2), 5))],
    ['that is a bootloader', 'image-unknown', raw(first, bootloader)],
    ['that is a merged file', 'image-unknown', raw(first, merged(programs.new))],
    ['in a merged file, truncated', incomplete, raw(0x1000, merged(programs.new.subarray(0, 5000)))],
    ['in a merged file, damaged', 'image-checksum', raw(0x1000, merged(damaged))],
    [
      'in a merged file with a damaged table',
      'image-overwrites-bootloader',
      raw(0x1000, merged(programs.new).fill(0, 0x7005, 0x7006)),
    ],
    ['that is a truncated bootloader', incomplete, raw(0x1000, bootloader.subarray(0, 4000))],
    ['that is a bootloader for another chip', 'image-wrong-chip', raw(0x1000, espImage(noisyProgram(900, 2), 5))],
    ['that is larger than the slot that starts', 'image-too-large', raw(first, tooLarge)],
    ['that is larger than the other slot', 'image-too-large', raw(second, tooLarge)],
  ];

  test.each(refused)('is refused, and nothing is written: %s', async (_, code, image) => {
    const { model, flash: bring } = bench(withPrograms);
    const before = Buffer.from(model.flash.bytes);
    await expect(bring(image)).rejects.toMatchObject({ code });
    expect([before.equals(model.flash.bytes), model.ran.at(-1)]).toEqual([true, 'old']);
  });

  test.each([
    ['a merged file', 'new', raw(0x1000, merged(programs.new))],
    [
      'a merged file that is filled',
      'new',
      raw(0x1000, Buffer.concat([merged(programs.new)], 0x30000).fill(0xff, 0xf000 + programs.new.byteLength)),
    ],
    ['a bootloader', 'old', raw(0x1000, bootloader)],
    ['a partition table', 'old', raw(0x8000, partitionTable(twoSlots(true)))],
    ['a data partition', 'old', raw(0x9000, noisyProgram(0x4000, 5))],
  ] as const)('is not %s, which is written', async (_, runs, image) => {
    const { model, flash: bring } = bench(withPrograms);
    expect(await bring(image)).toMatchObject({ boots: 'ota_0' });
    expect(model.ran.at(-1)).toBe(runs);
  });

  test('is not a merged file for a blank chip', async () => {
    const { model, flash: bring } = bench({ table: [], holds: {}, entries: [] });
    model.flash.bytes.fill(0xff);
    expect(await bring(raw(0x1000, merged(programs.new)))).toMatchObject({ known: 'otadata', boots: 'ota_0' });
    expect(model.ran.at(-1)).toBe('new');
  });

  test('may cover the table in a chip that has none', async () => {
    const { model, flash: bring } = bench();
    model.flash.bytes.fill(0xff, 0x8000, 0x8c00);
    expect(await bring(raw(0x1000, espImage(noisyProgram(40_000, 6))))).toMatchObject({ known: 'read-back' });
  });
});
