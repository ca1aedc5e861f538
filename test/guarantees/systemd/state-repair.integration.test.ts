import { chmod, mkdir, open, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { bootloaderBlock } from '../../unit-and-integration/slots/bootloaders/bootloader-pages.ts';
import { newDirectory, run } from './installed-root.ts';

const MIB = 1024 * 1024;

let directory: string;
let image: string;

beforeEach(async () => {
  directory = await newDirectory();
  image = join(directory, 'partition.img');
  await mkdir(join(directory, 'content'));
  await mkdir(join(directory, 'mounted'));
  await writeFile(join(directory, 'content', 'identity.json'), 'the key');
  await run('truncate', '-s', '64M', image);
  await run('mkfs.ext4', '-q', '-d', join(directory, 'content'), image);
});
afterEach(async () => {
  await rm(directory, { recursive: true });
});

async function overwrite(at: number, bytes: Buffer): Promise<void> {
  await using file = await open(image, 'r+');
  await file.write(bytes, 0, bytes.byteLength, at);
}

/** Runs the command of the unit as systemd does: with its environment, and with mounts that end with it. */
async function repair(label: string, path = process.env['PATH'] ?? ''): Promise<void> {
  const unit = bootloaderBlock(`ini ${label}`);
  const command = /^ExecStart=\/bin\/sh -c '(.*)'$/m.exec(unit)?.[1] ?? 'exit 99';
  const given = [...unit.matchAll(/^Environment=(.*)$/gm)].map(([, line]) => line ?? '');
  const set = [`STATE=${image}`, `BOOT=${image}`, `RUNTIME_DIRECTORY=${join(directory, 'mounted')}`, `PATH=${path}`];
  const ended = await run('unshare', '-m', 'env', ...given, ...set, 'sh', '-c', command);
  expect(ended).toMatchObject({ exitCode: 0 });
}

async function identity(): Promise<string> {
  return (await run('debugfs', '-c', '-R', 'cat /identity.json', image)).output;
}

/** Replaces a program by a shell script. */
async function pathWith(program: string, script: string): Promise<string> {
  await mkdir(join(directory, 'bin'));
  await writeFile(join(directory, 'bin', program), `#!/bin/sh\n${script}\n`);
  await chmod(join(directory, 'bin', program), 0o755);
  return `${join(directory, 'bin')}:${process.env['PATH'] ?? ''}`;
}

/** Sets a feature that no e2fsck knows, as `orphan_file` (e2fsprogs 1.47) is for 1.46, in all superblocks. */
async function addUnknownFeature(): Promise<void> {
  await run('mkfs.ext4', '-q', '-F', '-b', '1024', '-O', '^metadata_csum', '-d', join(directory, 'content'), image);
  const bytes = await readFile(image);
  for (let at = MIB / 1024; at < bytes.byteLength; at += 1024) {
    if (bytes.readUInt16LE(at + 0x38) === 0xef53 && bytes.readUInt32LE(at + 0x18) === 0)
      bytes.writeUInt32LE((bytes.readUInt32LE(at + 0x5c) | 0x8000) >>> 0, at + 0x5c);
  }
  await writeFile(image, bytes);
}

test.each(['state-repair', 'boot-repair', 'machine-id'])('%s is a unit that systemd understands', async (label) => {
  const file = join(directory, `thing-${label}.service`);
  await writeFile(file, bootloaderBlock(`ini ${label}`));
  expect(await run('systemd-analyze', 'verify', file)).toEqual({ exitCode: 0, output: '' });
});

describe('the repair of the state partition', () => {
  test('leaves a sound file system as it is', async () => {
    await repair('state-repair');
    expect(await identity()).toMatch(/^the key/);
  });

  test('keeps the content when a power cut tore the superblock, which preening does not repair', async () => {
    await overwrite(1024 + 512, Buffer.alloc(512, 0x5a));
    expect((await run('e2fsck', '-p', image)).exitCode).toBeGreaterThanOrEqual(4);
    await repair('state-repair');
    expect(await run('e2fsck', '-fn', image)).toMatchObject({ exitCode: 0 });
    expect(await identity()).toMatch(/^the key/);
  });

  test('keeps a file system with a feature that its e2fsck does not know', async () => {
    await addUnknownFeature();
    expect((await run('e2fsck', '-y', image)).exitCode).toBe(12);
    await repair('state-repair');
    expect(await identity()).toMatch(/^the key/);
  });

  test('leaves a partition alone that e2fsck cannot open as a file system (exit code 8)', async () => {
    const bytes = Buffer.alloc(64 * MIB);
    await overwrite(0, bytes);
    expect((await run('e2fsck', '-y', image)).exitCode).toBe(8);
    await repair('state-repair');
    expect((await readFile(image)).equals(bytes)).toBe(true);
  });

  test.each(['exit 0', 'exit 1', 'exit 2', 'exit 8', 'exit 12', 'exit 32', 'exit 127', 'kill -9 $$'])(
    'does not format an unreadable file system if e2fsck ends with %s',
    async (script) => {
      await overwrite(0, Buffer.alloc(MIB, 0x5a));
      const before = await readFile(image);
      await repair('state-repair', await pathWith('e2fsck', script));
      expect((await readFile(image)).equals(before)).toBe(true);
    },
  );

  test('does not format a file system that can be mounted although e2fsck leaves errors', async () => {
    await repair('state-repair', await pathWith('e2fsck', 'exit 4'));
    expect(await identity()).toMatch(/^the key/);
  });

  test('formats with features that an older e2fsck knows if errors are left and nothing can be mounted', async () => {
    await overwrite(0, Buffer.alloc(MIB, 0x5a));
    await repair('state-repair', await pathWith('e2fsck', 'exit 4'));
    expect(await run('e2fsck', '-fn', image)).toMatchObject({ exitCode: 0 });
    expect(await identity()).toMatch(/File not found/);
    const { output } = await run('dumpe2fs', '-h', image);
    expect(output).toContain('has_journal');
    expect(output).not.toMatch(/orphan_file|metadata_csum_seed/);
  });
});

test('keeps the machine id of the first boot', async () => {
  const command = /^ExecStart=\/bin\/sh -c '(.*)'$/m.exec(bootloaderBlock('ini machine-id'))?.[1] ?? 'exit 99';
  const now = join(directory, 'now');
  const boot = async (made: string): Promise<string> => {
    await writeFile(now, made);
    const set = [`KEPT=${join(directory, 'kept')}`, `NOW=${now}`];
    expect(await run('env', ...set, 'sh', '-c', command)).toMatchObject({ exitCode: 0 });
    return readFile(now, 'utf8');
  };
  expect([await boot('first\n'), await boot('other\n')]).toEqual(['first\n', 'first\n']);
});

describe('the repair of a boot partition', () => {
  test('repairs what it can without removing a file, and keeps the rest if it can be mounted', async () => {
    const before = await damageInode();
    expect((await run('fsck', '-p', image)).exitCode).toBeGreaterThanOrEqual(4);
    await repair('boot-repair');
    expect(await identity()).toMatch(/^the key/);
    expect(before).toContain('identity.json');
  });

  test('repairs a superblock without which it cannot be mounted', async () => {
    await overwrite(1024, Buffer.alloc(1024, 0x5a));
    await repair('boot-repair');
    expect(await run('e2fsck', '-fn', image)).toMatchObject({ exitCode: 0 });
    expect(await identity()).toMatch(/^the key/);
  });

  test('leaves a sound FAT file system as it is', async () => {
    await run('mkfs.vfat', image);
    await run('mcopy', '-i', image, join(directory, 'content', 'identity.json'), '::/');
    await repair('boot-repair');
    expect(await run('mtype', '-i', image, '::/identity.json')).toEqual({ exitCode: 0, output: 'the key' });
  });
});

/** Gives a file an invalid mode, which GRUB ignores and e2fsck -y answers by removing it, and sets the error flag. */
async function damageInode(): Promise<string> {
  await run('debugfs', '-w', '-R', 'set_inode_field /identity.json mode 0', image);
  await run('debugfs', '-w', '-R', 'set_super_value state 2', image);
  return (await run('debugfs', '-c', '-R', 'ls -p /', image)).output;
}
