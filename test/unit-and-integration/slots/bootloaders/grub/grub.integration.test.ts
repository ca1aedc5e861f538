import { execFile } from 'node:child_process';
import * as realFs from 'node:fs/promises';
import { copyFile, lstat, mkdir, readFile, rename, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { promisify } from 'node:util';

import { describe, expect, test } from 'vitest';

import type { BootFs } from '../../../../../src/slots/bootloaders/boot-fs.ts';
import { bootloaderContract, evidence } from '../bootloader-contract.ts';
import { bootloaderBlock } from '../bootloader-pages.ts';
import { GrubRig } from './grub-rig.ts';

const execute = promisify(execFile);
const signal = new AbortController().signal;

bootloaderContract('GRUB', () => GrubRig.open(3));

describe('the GRUB environment', () => {
  test('matches the image page, and foreign variables stay', async () => {
    await using rig = await GrubRig.open(3);
    const others = ['ATTEMPTS=3', 'mine=kept'];
    await rig.bootloader.markUnbootable('B', signal);
    await rig.bootloader.commit('A', signal);
    expect(await rig.list()).toEqual([
      'ATTEMPTS=3',
      'A_OK=1',
      'A_TRY=0',
      'B_OK=0',
      'B_TRY=0',
      'ORDER=A',
      'TRIAL=none',
      'mine=kept',
    ]);
    await rig.bootloader.tryOnce('B', evidence, signal);
    expect(await rig.list()).toEqual(
      [...others, 'A_OK=1', 'A_TRY=0', 'B_OK=1', 'B_TRY=2', 'ORDER=B A', 'TRIAL=B'].sort(),
    );
    await rig.bootloader.commit('B', signal);
    expect(await rig.list()).toEqual(
      [...others, 'A_OK=1', 'A_TRY=0', 'B_OK=1', 'B_TRY=0', 'ORDER=B A', 'TRIAL=none'].sort(),
    );
  });

  test('with one attempt is RAUC’s: TRY is a flag, and a trial that fell back is left all the same', async () => {
    await using rig = await GrubRig.open(1);
    await rig.bootloader.commit('A', signal);
    await rig.bootloader.markUnbootable('B', signal);
    await rig.bootloader.tryOnce('B', evidence, signal);
    expect(await rig.list()).toEqual(expect.arrayContaining(['A_OK=1', 'A_TRY=0', 'B_OK=1', 'B_TRY=0', 'ORDER=B A']));
    expect([await rig.boot(), await rig.boot()]).toEqual(['B', 'A']);
    await rig.bootloader.tryOnce('B', evidence, signal);
    expect([await rig.boot(), await rig.boot()]).toEqual(['B', 'A']);
    await rig.bootloader.markUnbootable('B', signal);
    await rig.bootloader.commit('A', signal);
    expect([await rig.boot(), await rig.boot()]).toEqual(['A', 'A']);
  });

  test('fits the first sector of its block, so that GRUB’s own write changes one', async () => {
    await using rig = await GrubRig.open(3);
    await rig.bootloader.canary(signal);
    await rig.bootloader.tryOnce('B', evidence, signal);
    expect((await readFile(rig.file, 'latin1')).slice(512)).toMatch(/^#{512}$/);
  });

  test.each([
    ['lost its heading', Buffer.alloc(1024)],
    ['was emptied', Buffer.alloc(0)],
    ['was made anew', Buffer.from('# GRUB Environment Block\n'.padEnd(1024, '#'))],
  ])('that %s is read from its copy, and made whole by the next change', async (_, spoilt) => {
    await using rig = await GrubRig.open(3);
    await copyFile(rig.file, `${rig.file}.copy`);
    await rig.bootloader.tryOnce('B', evidence, signal);
    await writeFile(rig.file, spoilt);
    expect(await rig.bootloader.inspect(signal)).toMatchObject({ primary: 'B' });
    expect(await rig.boot()).toBe('B');
    await rig.bootloader.commit('B', signal);
    expect((await readFile(rig.file)).equals(await readFile(`${rig.file}.copy`))).toBe(true);
    expect(await rig.boot()).toBe('B');
  });

  test('has a copy only where the integrator made one', async () => {
    await using rig = await GrubRig.open(3);
    await rig.bootloader.tryOnce('B', evidence, signal);
    await expect(lstat(`${rig.file}.copy`)).rejects.toMatchObject({ code: 'ENOENT' });
    await writeFile(`${rig.file}.copy`, Buffer.alloc(1024));
    await rig.bootloader.commit('B', signal);
    expect((await readFile(rig.file)).equals(await readFile(`${rig.file}.copy`))).toBe(true);
  });

  test('is read by a script that GRUB accepts', async () => {
    await using rig = await GrubRig.open(3);
    await writeFile(rig.folder.file('grub.cfg'), bootloaderBlock('sh grub'));
    await expect(execute('grub-script-check', [rig.folder.file('grub.cfg')])).resolves.toBeDefined();
  });

  test('stays where a symbolic link leads', async () => {
    await using rig = await GrubRig.open(3);
    await mkdir(rig.folder.file('efi'));
    await rename(rig.file, rig.folder.file('efi/grubenv'));
    await symlink('efi/grubenv', rig.file);
    await rig.bootloader.tryOnce('B', evidence, signal);
    expect((await lstat(rig.file)).isSymbolicLink()).toBe(true);
    expect(await rig.boot()).toBe('B');
  });

  test('that is missing is an error, and is not created', async () => {
    await using rig = await GrubRig.open(3);
    await rm(rig.file);
    await expect(rig.bootloader.commit('A', signal)).rejects.toMatchObject({
      code: 'boot-environment-unreadable',
      advice: expect.stringContaining('grub-editenv FILE create') as unknown,
    });
    await expect(lstat(rig.file)).rejects.toMatchObject({ code: 'ENOENT' });
  });

  test('that lost a part of its block is an error', async () => {
    await using rig = await GrubRig.open(3);
    await truncate(rig.file, 600);
    await expect(rig.bootloader.inspect(signal)).rejects.toMatchObject({
      code: 'boot-environment-unreadable',
      message: expect.stringContaining('600 bytes instead of 1024') as unknown,
    });
  });

  test('without its heading is an error', async () => {
    await using rig = await GrubRig.open(3);
    await writeFile(rig.file, Buffer.alloc(1024));
    await expect(rig.bootloader.inspect(signal)).rejects.toMatchObject({
      code: 'boot-environment-unreadable',
      message: expect.stringContaining('invalid environment block') as unknown,
    });
  });

  test.each([
    ['ORDER=C', 'ORDER=C, expected an order such as "A B"'],
    ['ORDER=', 'ORDER=, expected an order such as "A B"'],
    ['A_OK=yes', 'A_OK=yes, expected 0 or 1'],
    ['B_TRY=-1', 'B_TRY=-1, expected a number of boot attempts'],
    ['A_OK=0', 'no slot in ORDER is marked OK'],
  ])('with %s is an error that says so', async (assignment, message) => {
    await using rig = await GrubRig.open(3);
    await rig.set(assignment);
    await expect(rig.bootloader.commit('A', signal)).rejects.toMatchObject({
      code: 'boot-environment-invalid',
      message: `GRUB environment: ${message}`,
    });
  });

  test('that cannot be written is an error that names it', async () => {
    await using rig = await GrubRig.open(3);
    const open = async () => {
      throw Object.assign(new Error('EROFS: read-only file system, open'), { code: 'EROFS' });
    };
    const bootloader = await rig.folder.bootloader(rig.settings, { fs: { ...realFs, open } });
    await expect(bootloader.canary(signal)).rejects.toMatchObject({
      code: 'boot-environment-unwritable',
      message: `GRUB environment: cannot write ${rig.file}: EROFS: read-only file system, open`,
      advice: 'check that its file system is mounted read-write',
    });
  });

  test('that is full is an error, and stays as it was', async () => {
    await using rig = await GrubRig.open(3);
    await rig.set('ORDER=A');
    let [fits, tooLong] = [0, 1024];
    while (tooLong - fits > 1) {
      const length = Math.floor((fits + tooLong) / 2);
      const [set] = await Promise.allSettled([rig.set(`ballast=${'x'.repeat(length)}`)]);
      if (set.status === 'fulfilled') fits = length;
      else tooLong = length;
    }
    await rig.set(`ballast=${'x'.repeat(fits)}`);
    expect(await refusal(rig)).toMatchObject({
      code: 'boot-environment-unwritable',
      message: `GRUB environment: ${rig.file} is full`,
    });
  });

  test('that fills more than a sector is never changed in two of them, which a power cut could tear', async () => {
    await using rig = await GrubRig.open(3);
    await rig.bootloader.commit('A', signal);
    await rig.set('ORDER=A', `others=${'x'.repeat(400)}`);
    expect(await refusal(rig)).toMatchObject({
      code: 'boot-environment-unwritable',
      message: `GRUB environment: ${rig.file} needs more than its first sector`,
      advice: expect.stringContaining('within its first 512 bytes') as unknown,
    });
  });

  test('that lost a write is not believed', async () => {
    await using rig = await GrubRig.open(3);
    const deafFile = {
      read: async (into: Buffer) => ({ bytesRead: (await realFs.readFile(rig.file)).copy(into) }),
      write: async (_data: Buffer, _from: number, length: number) => ({ bytesWritten: length }),
      [Symbol.asyncDispose]: async () => {},
    };
    const fs = { ...realFs, open: async () => deafFile } as unknown as BootFs;
    const bootloader = await rig.folder.bootloader(rig.settings, { fs });
    const expected = { code: 'boot-write-not-confirmed' };
    await expect(bootloader.tryOnce('B', evidence, signal)).rejects.toMatchObject(expected);
    await expect(bootloader.canary(signal)).rejects.toMatchObject(expected);
  });
});

describe('GRUB’s script', () => {
  test('boots on a new gateway what is there, and makes nothing else bootable', async () => {
    await using rig = await GrubRig.open(3);
    expect(await rig.list()).toEqual(expect.arrayContaining(['A_OK=1', 'B_OK=0', 'ORDER=A B']));
  });

  test('passes over a slot without a kernel', async () => {
    await using rig = await GrubRig.open(3);
    await rig.bootloader.tryOnce('B', evidence, signal);
    await rig.fill('B', false);
    expect(await rig.boot()).toBe('A');
    await rig.fill('A', false);
    expect(await rig.choose()).toMatchObject({ slot: 'none' });
  });

  test('does not boot a trial that it cannot count', async () => {
    await using rig = await GrubRig.open(3);
    await rig.bootloader.tryOnce('B', evidence, signal);
    await rig.set('TRIAL=B');
    expect(await rig.choose({ readOnly: true })).toEqual({ slot: 'A', told: 'thing.trial=0' });
    expect(await rig.choose()).toEqual({ slot: 'B', told: 'thing.trial=1' });
    expect(await rig.choose({ readOnly: true })).toEqual({ slot: 'A', told: 'thing.trial=0' });
  });

  test('boots a committed slot all the same when it cannot count', async () => {
    await using rig = await GrubRig.open(3);
    await rig.set('TRIAL=none');
    expect(await rig.choose({ readOnly: true })).toEqual({ slot: 'A', told: 'thing.trial=0' });
  });

  test('uses the copy to find the discarded slot', async () => {
    await using rig = await GrubRig.open(3);
    await rig.bootloader.commit('A', signal);
    await rig.bootloader.markUnbootable('B', signal);
    await rename(rig.file, `${rig.file}.copy`);
    const slots = [];
    for (let minute = 0; minute < 7; minute += 1) slots.push((await rig.choose({ minute })).slot);
    expect(slots).toEqual(Array.from({ length: 7 }, () => 'A'));
  });

  test('tries both slots in turn where nothing can be read, and counts nothing', async () => {
    await using rig = await GrubRig.open(3);
    await writeFile(rig.file, Buffer.alloc(1024));
    await writeFile(`${rig.file}.copy`, 'torn');
    const slots = [];
    for (const minute of [0, 8, 59, 31]) slots.push((await rig.choose({ minute })).slot);
    expect(slots).toEqual(['A', 'A', 'B', 'B']);
    await rig.fill('A', false);
    expect(await rig.choose({ minute: 0 })).toEqual({ slot: 'B', told: '' });
  });
});

/** Returns the error, after checking that nothing changed. */
async function refusal(rig: GrubRig): Promise<unknown> {
  const before = await readFile(rig.file);
  const error: unknown = await rig.bootloader.tryOnce('B', evidence, signal).catch((reason: unknown) => reason);
  expect((await readFile(rig.file)).equals(before)).toBe(true);
  return error;
}
