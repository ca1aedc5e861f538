import { execFileSync } from 'node:child_process';
import { readFile, realpath, rename, rm, stat, symlink } from 'node:fs/promises';

import { describe, expect, test } from 'vitest';

import type { BootFs } from '../../../../../src/slots/bootloaders/boot-fs.ts';
import { bootloaderContract, evidence } from '../bootloader-contract.ts';
import { factoryAutoboot, TrybootRig } from './tryboot-rig.ts';

const signal = new AbortController().signal;

bootloaderContract('tryboot', () => TrybootRig.open());
bootloaderContract('tryboot with a short autoboot.txt', () => TrybootRig.open('boot_partition=2'));

describe('autoboot.txt', () => {
  test('is overwritten in place once it is padded: the same file, of 512 bytes', async () => {
    await using rig = await TrybootRig.open('[all]\nboot_partition=2\n');
    await rig.bootloader.tryOnce('B', evidence, signal);
    const first = await stat(rig.settings.autoboot);
    expect(first.size).toBe(512);
    await rig.bootloader.commit('B', signal);
    await rig.bootloader.canary(signal);
    const second = await stat(rig.settings.autoboot);
    expect([second.ino, second.size]).toEqual([first.ino, 512]);
  });

  test('is changed in one write', async () => {
    await using rig = await TrybootRig.open();
    rig.power.cutAfter(100);
    await rig.bootloader.tryOnce('B', evidence, signal);
    expect(rig.power.history).toEqual([`overwrite ${rig.settings.autoboot}`]);
  });

  test('leaves nothing behind of a longer number', async () => {
    await using rig = await TrybootRig.open();
    await rig.write('[all]\ntryboot_a_b=1\nboot_partition=2\n[tryboot]\nboot_partition=12');
    const bootloader = await rig.folder.bootloader({ ...rig.settings, partitions: { A: 2, B: 12 } });
    await bootloader.markUnbootable('B', signal);
    expect(await rig.read()).toBe('[all]\ntryboot_a_b=1\nboot_partition=2\n[tryboot]\nboot_partition=2\n');
  });

  test('reports each commit of the running slot, and nothing else', async () => {
    await using rig = await TrybootRig.open();
    const told: string[] = [];
    const onKept = async (): Promise<void> => void told.push('kept');
    const bootloader = await rig.folder.bootloader(rig.settings, { onKept });
    await bootloader.tryOnce('B', evidence, signal);
    await bootloader.commit('B', signal);
    expect(told).toEqual([]);
    await bootloader.commit('A', signal);
    expect(told).toEqual(['kept']);
  });

  test('on a medium that takes nothing is not believed', async () => {
    await using rig = await TrybootRig.open();
    const deafFile = {
      read: async (into: Buffer) => ({ bytesRead: (await readFile(rig.settings.autoboot)).copy(into) }),
      write: async (_data: Buffer, _from: number, length: number) => ({ bytesWritten: length }),
      writeFile: async () => {},
      sync: async () => {},
      [Symbol.asyncDispose]: async () => {},
    };
    const fs = { readFile, realpath, rename: async () => {}, open: async () => deafFile } as unknown as BootFs;
    const bootloader = await rig.folder.bootloader(rig.settings, { fs });
    const expected = { code: 'boot-write-not-confirmed' };
    await expect(bootloader.tryOnce('B', evidence, signal)).rejects.toMatchObject(expected);
    await expect(bootloader.canary(signal)).rejects.toMatchObject(expected);
  });

  test('on a medium that cannot be written is an error that names it', async () => {
    await using rig = await TrybootRig.open();
    const open = async () => {
      throw Object.assign(new Error('EROFS: read-only file system, open'), { code: 'EROFS' });
    };
    const bootloader = await rig.folder.bootloader(rig.settings, { fs: { readFile, realpath, rename, open } });
    await expect(bootloader.canary(signal)).rejects.toMatchObject({
      code: 'boot-environment-unwritable',
      message: expect.stringContaining('read-only file system') as unknown,
    });
  });

  // Regression for other configured files: a pipe was awaited, a device was read until the memory was full.
  test.each([
    ['a pipe', async (path: string) => void execFileSync('mkfifo', [path])],
    ['a device', async (path: string) => symlink('/dev/zero', path)],
  ])('that is %s is refused', async (_, plant) => {
    await using rig = await TrybootRig.open();
    await rm(rig.settings.autoboot);
    await plant(rig.settings.autoboot);
    await expect((await rig.folder.bootloader(rig.settings)).inspect(signal)).rejects.toMatchObject({
      code: 'boot-environment-unreadable',
      message: expect.stringContaining('it is not a regular file') as unknown,
    });
  });

  test('keeps the lines of others', async () => {
    await using rig = await TrybootRig.open(
      `# ours: Grüße\r\n${factoryAutoboot}[none]\nboot_partition=7\n[pi5]\nfoo=1\n`,
    );
    await rig.bootloader.tryOnce('B', evidence, signal);
    expect((await rig.read()).trimEnd()).toBe(
      '# ours: Grüße\r\n[all]\ntryboot_a_b=1\nboot_partition=2\n[tryboot]\nboot_partition=3\n[none]\nboot_partition=7\n[pi5]\nfoo=1',
    );
  });

  test.each([
    ['names no partition', '[all]\ntryboot_a_b=1\n', /names no boot_partition; slot A is 2, slot B is 3$/],
    ['names another partition', '[all]\nboot_partition=1\n', /names boot_partition 1; slot A is 2, slot B is 3$/],
    ['names something else', '[all]\nboot_partition=two\n', /names no boot_partition/],
    [
      'names a partition under an unknown filter',
      `${factoryAutoboot}[pi5]\nboot_partition=3\n`,
      /names a partition under \[pi5\]$/,
    ],
    ['is longer than the bootloader reads', factoryAutoboot.padEnd(513, '\n'), /has more than 512 bytes$/],
    ['is no text', `${factoryAutoboot}\0`, /is not a text$/],
  ])('that %s is an error that says so, and is left as it is', async (_what, text, message) => {
    await using rig = await TrybootRig.open();
    await rig.write(text);
    const expected = { code: 'boot-environment-invalid', message: expect.stringMatching(message) as unknown };
    await expect(rig.bootloader.commit('A', signal)).rejects.toMatchObject(expected);
    await expect(rig.bootloader.canary(signal)).rejects.toMatchObject(expected);
    expect(await rig.read()).toBe(text);
  });

  test('has the last word of a slot as a comment, until that slot is armed again', async () => {
    await using rig = await TrybootRig.open();
    const { bootloader } = rig;
    await bootloader.canary(signal);
    await bootloader.tryOnce('B', evidence, signal);
    expect(await rig.boot('0 tryboot')).toBe('B');
    await bootloader.markUnbootable('B', signal, 'state-unavailable');
    expect(await rig.boot('0 tryboot')).toBe('A');
    await bootloader.commit('A', signal);
    expect((await bootloader.inspect(signal)).slots.B).toMatchObject({
      bootable: false,
      lastWord: 'state-unavailable',
    });
    await bootloader.markUnbootable('B', signal);
    expect(await rig.read()).not.toContain('state-unavailable');
  });

  test('without room for the last word does without it', async () => {
    await using rig = await TrybootRig.open(`${factoryAutoboot}#${'x'.repeat(440)}\n`);
    await rig.bootloader.tryOnce('B', evidence, signal);
    expect(await rig.boot('0 tryboot')).toBe('B');
    await rig.bootloader.markUnbootable('B', signal, 'state-unavailable');
    expect((await rig.bootloader.inspect(signal)).slots.B).toEqual({ bootable: false, detail: 'not in autoboot.txt' });
    expect(await rig.boot('0 tryboot')).toBe('A');
  });

  test('without space for an addition is an error', async () => {
    await using rig = await TrybootRig.open();
    const full = `[all]\nboot_partition=2\n${'#'.repeat(488)}\n`;
    await rig.write(full);
    await expect(rig.bootloader.commit('A', signal)).rejects.toMatchObject({
      code: 'boot-environment-invalid',
      message: expect.stringContaining('has no room') as unknown,
    });
    expect(await rig.read()).toBe(full);
  });

  test('that is missing is an error that names it', async () => {
    await using rig = await TrybootRig.open();
    await rm(rig.settings.autoboot);
    await expect(rig.bootloader.inspect(signal)).rejects.toMatchObject({
      code: 'boot-environment-unreadable',
      message: expect.stringContaining(rig.settings.autoboot) as unknown,
    });
  });

  test('where another partition was booted than what is mounted is a contradiction', async () => {
    await using rig = await TrybootRig.open();
    rig.folder.mounted = 'B';
    await expect(rig.bootloader.bootedSlot(signal)).rejects.toMatchObject({ code: 'booted-slot-contradiction' });
  });
});
