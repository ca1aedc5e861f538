import { constants } from 'node:fs';
import * as realFs from 'node:fs/promises';
import { open, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, test } from 'vitest';

import type { BootFs } from '../../../../../src/slots/bootloaders/boot-fs.ts';
import type { RunProgram } from '../../../../../src/slots/bootloaders/boot-programs.ts';
import { readWithGrub } from '../../../../../src/slots/bootloaders/grub/grub-reader.ts';
import type { BootloaderSettings } from '../../../../../src/slots/settings.ts';
import { AgentError } from '../../../../../src/system/errors.ts';
import { runProgram } from '../../../../../src/system/processes/child-process.ts';
import type { Bootloader } from '../../../../../src/update/ports.ts';
import { seededRandom } from '../../../../fakes/machine/power.ts';
import { folderUntilTestEnds } from '../../../../until-test-ends.ts';
import { LoopDevice, run, TemporaryMount } from '../../loop-device.ts';
import { evidence } from '../bootloader-contract.ts';
import { GatewayFolder, plainNames } from '../gateway-folder.ts';

const signal = new AbortController().signal;
const SECTOR_BYTES = 512;
const MAX_TORN = 60;

/** A boot partition. GRUB itself reads its environment, on a copy of the disk after an interruption. */
interface BootDisk extends AsyncDisposable {
  readonly file: string;
  readonly bootloader: Bootloader;
  /** The current content of the medium. */
  disk(): Promise<Buffer>;
  /** Another file is written there. */
  writeAnother(): Promise<void>;
}

const factory = ['ORDER=A', 'ATTEMPTS=3', 'A_OK=1', 'A_TRY=0', 'B_OK=0', 'B_TRY=0'];

async function makeEnvironment(file: string): Promise<void> {
  await run('grub-editenv', file, 'create');
  await run('grub-editenv', file, 'set', ...factory);
}

async function openFolder(opened: AsyncDisposableStack): Promise<GatewayFolder> {
  const folder = opened.use(await GatewayFolder.create());
  await folder.started('A');
  return folder;
}

function settings(environment: string): BootloaderSettings {
  return { kind: 'grub', environment, attempts: 3, names: plainNames };
}

/** Mounted by Linux from a loop device, after an image builder made it. */
async function openExt4(option = 'defaults'): Promise<BootDisk> {
  await using opening = new AsyncDisposableStack();
  const folder = await openFolder(opening);
  const device = opening.use(await LoopDevice.attach(8 * 1024 * 1024));
  await run('mkfs.ext4', '-q', device.path);
  {
    await using first = await TemporaryMount.mount(device.path);
    await makeEnvironment(join(first.folder, 'grubenv'));
  }
  const mount = opening.use(await TemporaryMount.mount('-o', option, device.path));
  const opened = opening.move();
  const file = join(mount.folder, 'grubenv');
  return {
    file,
    bootloader: await folder.bootloader(settings(file)),
    disk: async () => readFile(device.backingFile),
    writeAnother: async () => {
      await using other = await open(join(mount.folder, 'other'), 'w');
      await other.writeFile(Buffer.alloc(65_536, 'x'));
      await other.sync();
    },
    [Symbol.asyncDispose]: async () => opened.disposeAsync(),
  };
}

/** Not every kernel that runs tests knows FAT: the file's bytes are overwritten where they lie in the image, as Linux does. */
async function openFat(): Promise<BootDisk> {
  await using opening = new AsyncDisposableStack();
  const folder = await openFolder(opening);
  const [image, file] = [folder.file('boot.img'), folder.file('grubenv')];
  await makeEnvironment(file);
  await writeFile(image, Buffer.alloc(8 * 1024 * 1024));
  await run('mkfs.vfat', image);
  await run('mcopy', '-i', image, file, '::grubenv');
  const begin = (await readFile(image)).indexOf('# GRUB Environment Block');
  const fs = {
    ...realFs,
    readFile: async () => (await readFile(image)).subarray(begin, begin + 1024),
    open: async (_path: string, flags: number) => {
      const handle = await open(image, flags & ~constants.O_DIRECT);
      return {
        read: async (into: Uint8Array) => handle.read(into, 0, 1024, begin),
        write: async (bytes: Uint8Array, from: number, length: number, at: number) =>
          handle.write(bytes, from, length, begin + at),
        [Symbol.asyncDispose]: async () => handle.close(),
      };
    },
  } as unknown as BootFs;
  const opened = opening.move();
  return {
    file,
    bootloader: await folder.bootloader(settings(file), { fs }),
    disk: async () => readFile(image),
    writeAnother: async () => {
      await writeFile(folder.file('other'), 'x'.repeat(65_536));
      await run('mcopy', '-i', image, folder.file('other'), '::other');
    },
    [Symbol.asyncDispose]: async () => opened.disposeAsync(),
  };
}

/** The variables that GRUB finds on such a disk. */
async function asGrubReads(disk: Buffer): Promise<string> {
  const directory = folderUntilTestEnds();
  const [copy, block] = [join(directory, 'copy.img'), join(directory, 'grubenv')];
  await writeFile(copy, disk);
  await writeFile(block, await run('grub-fstest', copy, 'cat', '(loop0)/grubenv'));
  return (await run('grub-editenv', block, 'list')).replaceAll('\n', ' ');
}

/** Every sector that a write changed is on the medium or not, in any combination; where there are too many, a sample. */
function* torn(before: Buffer, after: Buffer): Generator<Buffer> {
  const changed = changedSectors(before, after);
  const all = 2 ** Math.min(changed.length, 20);
  const random = seededRandom(1);
  for (let made = 0; made < Math.min(all, MAX_TORN); made += 1) {
    const disk = Buffer.from(before);
    for (const [index, sector] of changed.entries()) {
      const isThere = all <= MAX_TORN ? (made >> index) % 2 === 1 : random() < 0.5;
      if (isThere) after.copy(disk, sector, sector, sector + SECTOR_BYTES);
    }
    yield disk;
  }
}

function changedSectors(before: Buffer, after: Buffer): readonly number[] {
  const sectors = Array.from({ length: before.byteLength / SECTOR_BYTES }, (_, index) => index * SECTOR_BYTES);
  return sectors.filter((at) => before.compare(after, at, at + SECTOR_BYTES, at, at + SECTOR_BYTES) !== 0);
}

const armed = 'ORDER=B A ATTEMPTS=3 A_OK=1 A_TRY=0 B_OK=1 B_TRY=2 TRIAL=B';
const committed = 'ORDER=B A ATTEMPTS=3 A_OK=1 A_TRY=0 B_OK=1 B_TRY=0 TRIAL=none';
const left = 'ORDER=B ATTEMPTS=3 A_OK=0 A_TRY=0 B_OK=1 B_TRY=0 TRIAL=none';

describe.each([
  ['ext4', openExt4],
  ['FAT', openFat],
])('on %s', (_name, openDisk) => {
  test('GRUB reads each change as soon as it was made, whatever else is written there', async () => {
    await using boot = await openDisk();
    await boot.bootloader.tryOnce('B', evidence, signal);
    expect(await asGrubReads(await boot.disk())).toBe(armed);
    await boot.bootloader.commit('B', signal);
    expect(await asGrubReads(await boot.disk())).toBe(committed);
    await boot.writeAnother();
    await boot.bootloader.markUnbootable('A', signal);
    expect(await asGrubReads(await boot.disk())).toBe(left);
  });

  test('GRUB reads old or new, wherever a power cut tears the write', async () => {
    await using boot = await openDisk();
    await boot.bootloader.tryOnce('B', evidence, signal);
    const before = await boot.disk();
    await boot.bootloader.commit('B', signal);
    const after = await boot.disk();
    const seen = new Set<string>();
    for (const disk of torn(before, after)) seen.add(await asGrubReads(disk));
    expect([...seen].sort()).toEqual([armed, committed].sort());
  });
});

describe('what doctor sees', () => {
  const look = async (file: string, run: RunProgram = runProgram) => readWithGrub(file, { run }, signal);

  test('of a fit boot partition is what GRUB reads of it, change after change', async () => {
    await using boot = await openExt4();
    expect(await look(boot.file)).toBe('ext4, as GRUB reads it');
    await boot.bootloader.tryOnce('B', evidence, signal);
    expect(await look(boot.file)).toBe('ext4, as GRUB reads it');
    await boot.bootloader.commit('B', signal);
    expect(await look(boot.file)).toBe('ext4, as GRUB reads it');
  });

  test('of a file whose block GRUB does not find is an error', async () => {
    await using boot = await openExt4();
    const other: RunProgram = async (command, options, given) =>
      command[0] === 'grub-fstest'
        ? { exitCode: 1, stdout: '', stderr: 'grub-fstest: error: file not found.\n' }
        : runProgram(command, options, given);
    await expect(look(boot.file, other)).rejects.toMatchObject({
      code: 'boot-environment-misplaced',
      message: expect.stringContaining('file not found') as unknown,
    });
    const older: RunProgram = async (command, options, given) =>
      command[0] === 'grub-fstest'
        ? { exitCode: 0, stdout: '# GRUB Environment Block\nORDER=B\n'.padEnd(1024, '#'), stderr: '' }
        : runProgram(command, options, given);
    await expect(look(boot.file, older)).rejects.toMatchObject({ code: 'boot-environment-misplaced' });
  });

  test('without GRUB’s tool is the file system only', async () => {
    await using boot = await openExt4();
    const none: RunProgram = async () => {
      throw new AgentError({ code: 'program-missing', message: 'it is not there', remedy: 'give-up', exit: 'failed' });
    };
    expect(await look(boot.file, none)).toMatch(/^ext4; grub-fstest.*is not installed$/);
  });

  test.each([
    ['ro', 'boot-environment-unwritable', /is mounted read-only/],
    ['data=journal', 'boot-environment-misplaced', /GRUB reads no journal/],
  ])('of a file system that is mounted with %s is a clear error', async (option, code, message) => {
    await using boot = await openExt4(option);
    await expect(look(boot.file)).rejects.toMatchObject({
      code,
      message: expect.stringMatching(message) as unknown,
    });
  });

  test('of a file on a file system that GRUB cannot write is an error that names it', async () => {
    await using memory = await TemporaryMount.mount('-t', 'tmpfs', 'tmpfs');
    await writeFile(join(memory.folder, 'grubenv'), '');
    await expect(look(join(memory.folder, 'grubenv'))).rejects.toMatchObject({
      code: 'boot-environment-misplaced',
      message: expect.stringContaining('is on tmpfs') as unknown,
    });
  });
});
