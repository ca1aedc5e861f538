import { constants } from 'node:fs';
import * as realFs from 'node:fs/promises';
import { open, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, describe, expect, test } from 'vitest';

import type { BootFs } from '../../../../src/slots/bootloaders/boot-fs.ts';
import type { RunProgram } from '../../../../src/slots/bootloaders/boot-programs.ts';
import { runProgram } from '../../../../src/system/processes/child-process.ts';
import type { Bootloader } from '../../../../src/update/ports.ts';
import { untilTestEnds } from '../../../until-test-ends.ts';
import { LoopDevice, run, TemporaryMount } from '../loop-device.ts';
import { evidence } from './bootloader-contract.ts';
import { GatewayFolder, plainNames } from './gateway-folder.ts';
import { factoryAutoboot } from './tryboot/tryboot-rig.ts';

const signal = new AbortController().signal;

let folder: GatewayFolder;
let device: LoopDevice;
/** The medium reports success but loses writes. Linux believes them. */
let losesWrites = false;

beforeEach(async () => {
  folder = untilTestEnds(await GatewayFolder.create());
  await folder.started('A', 2);
  device = untilTestEnds(await LoopDevice.attach(8 * 1024 * 1024));
  losesWrites = false;
});

/** Calls what writes; where the medium loses that, it holds afterwards what it did before. */
async function losing<T>(write: () => Promise<T>): Promise<T> {
  if (!losesWrites) return write();
  const before = await readFile(device.backingFile);
  const result = await write();
  await using medium = await open(device.backingFile, 'r+');
  await medium.write(before);
  return result;
}

/** For the file system on the device. */
const fs = {
  ...realFs,
  open: async (path: string, flags: string | number, mode?: number) => {
    const file = await realFs.open(path, flags, mode);
    const write = file.write.bind(file);
    if (typeof flags === 'number' && (flags & constants.O_DSYNC) !== 0) {
      file.write = (async (...args: Parameters<typeof write>) => losing(async () => write(...args))) as typeof write;
    }
    return file;
  },
} as unknown as BootFs;

async function onExt4(name: string, make: (file: string) => Promise<void>): Promise<string> {
  await run('mkfs.ext4', '-q', device.path);
  {
    await using first = await TemporaryMount.mount(device.path);
    await make(join(first.folder, name));
  }
  const mount = untilTestEnds(await TemporaryMount.mount(device.path));
  return join(mount.folder, name);
}

async function makeGrub(run_: RunProgram = runProgram): Promise<{ bootloader: Bootloader; file: string }> {
  const file = await onExt4('grubenv', async (path) => {
    await run('grub-editenv', path, 'create');
    await run('grub-editenv', path, 'set', 'ORDER=A', 'A_OK=1', 'A_TRY=0', 'B_OK=0', 'B_TRY=0');
  });
  const settings = { kind: 'grub', environment: file, attempts: 3, names: plainNames } as const;
  return { file, bootloader: await folder.bootloader(settings, { fs, run: run_ }) };
}

/** Typed, as vitest's own is not. */
const containing = (text: string): unknown => expect.stringContaining(text);
const lost = { code: 'boot-write-not-confirmed', message: containing('its medium holds something else') };

describe('a write that Linux remembers, and the medium does not,', () => {
  test('is rejected for GRUB after any number of attempts', async () => {
    const { bootloader, file } = await makeGrub();
    await bootloader.tryOnce('B', evidence, signal);
    losesWrites = true;
    await expect(bootloader.commit('B', signal)).rejects.toMatchObject(lost);
    expect(await readFile(file, 'latin1')).toContain('TRIAL=none');
    await expect(bootloader.commit('B', signal)).rejects.toMatchObject(lost);
    await expect(bootloader.canary(signal)).rejects.toMatchObject(lost);
  });

  test('is rejected for a Raspberry Pi', async () => {
    const file = await onExt4('autoboot.txt', async (path) => writeFile(path, factoryAutoboot.padEnd(512, '\n')));
    const settings = { kind: 'tryboot', autoboot: file, partitions: { A: 2, B: 3 } } as const;
    const bootloader = await folder.bootloader(settings, { fs });
    await bootloader.tryOnce('B', evidence, signal);
    await folder.started('B', 3);
    losesWrites = true;
    await expect(bootloader.commit('B', signal)).rejects.toMatchObject(lost);
    await expect(bootloader.commit('B', signal)).rejects.toMatchObject(lost);
  });

  test.each([
    ['on a device', async () => device.path, {}],
    ['in a file', async () => onExt4('uboot.env', async (path) => writeFile(path, Buffer.alloc(0x4000, 0xff))), lost],
  ])('is none for U-Boot, whose environment lies %s', async (_, place, message) => {
    const tools = folder.file('fw_env.config');
    const environment = await place();
    await writeFile(tools, `${environment} 0x0000 0x2000\n${environment} 0x2000 0x2000\n`);
    await writeFile(folder.file('factory'), 'BOOT_ORDER=A\nBOOT_A_LEFT=3\nBOOT_B_LEFT=0\n');
    await run('fw_setenv', '-c', tools, '-f', folder.file('factory'), 'board', 'test');
    const settings = {
      kind: 'uboot',
      fwEnvConfig: tools,
      orderVariable: 'BOOT_ORDER',
      leftVariable: 'BOOT_{slot}_LEFT',
      trialVariable: 'BOOT_TRIAL',
      attempts: 3,
      names: plainNames,
    } as const;
    const losingRun: RunProgram = async (command, options, given) =>
      command[0] === 'fw_setenv' && command.includes('-s')
        ? losing(async () => runProgram(command, options, given))
        : runProgram(command, options, given);
    const bootloader = await folder.bootloader(settings, { run: losingRun });
    await bootloader.tryOnce('B', evidence, signal);
    losesWrites = true;
    const expected = { code: 'boot-write-not-confirmed', ...message };
    await expect(bootloader.commit('B', signal)).rejects.toMatchObject(expected);
  });
});

test('GRUB reads each write, and a mismatch is not a commit', async () => {
  let isOld = false;
  const asked: string[] = [];
  const reader: RunProgram = async (command, options, given) => {
    if (command[0] !== 'grub-fstest') return runProgram(command, options, given);
    asked.push(command.at(-1) ?? '');
    if (!isOld) return runProgram(command, options, given);
    return { exitCode: 0, stdout: '# GRUB Environment Block\nORDER=A\n'.padEnd(1024, '#'), stderr: '' };
  };
  const { bootloader } = await makeGrub(reader);
  await bootloader.tryOnce('B', evidence, signal);
  expect(asked).toEqual(['(loop0)/grubenv']);
  isOld = true;
  await expect(bootloader.commit('B', signal)).rejects.toMatchObject({ code: 'boot-environment-misplaced' });
  await expect(bootloader.commit('B', signal)).rejects.toMatchObject({ code: 'boot-environment-misplaced' });
  isOld = false;
  await bootloader.commit('B', signal);
  await bootloader.commit('B', signal);
  expect(asked).toHaveLength(4);
});
