import { mkdir, open, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { newDirectory, run } from './installed-root.ts';

const page = await readFile(new URL('../../../src/slots/bootloaders/README.md', import.meta.url), 'utf8');
const unit = /^```ini state-repair\n(.*?)^```/ms.exec(page)?.[1] ?? '';
const command = /^ExecStart=\/bin\/sh -c '(.*)'$/m.exec(unit)?.[1] ?? 'exit 99';

let directory: string;
let image: string;

beforeEach(async () => {
  directory = await newDirectory();
  image = join(directory, 'state.img');
  await mkdir(join(directory, 'state'));
  await writeFile(join(directory, 'state', 'identity.json'), 'the key');
  await run('truncate', '-s', '64M', image);
  await run('mkfs.ext4', '-q', '-d', join(directory, 'state'), image);
});
afterEach(async () => {
  await rm(directory, { recursive: true });
});

async function overwrite(at: number, bytes: Buffer): Promise<void> {
  await using file = await open(image, 'r+');
  await file.write(bytes, 0, bytes.byteLength, at);
}

async function repair(): Promise<void> {
  expect(await run('env', `STATE=${image}`, 'sh', '-c', command)).toMatchObject({ exitCode: 0 });
  expect(await run('e2fsck', '-fn', image)).toMatchObject({ exitCode: 0 });
}

async function identity(): Promise<string> {
  return (await run('debugfs', '-R', 'cat /identity.json', image)).output;
}

describe('the repair of the page for integrators', () => {
  test('is a unit that systemd understands', async () => {
    await writeFile(join(directory, 'thing-state-repair.service'), unit);
    expect(await run('systemd-analyze', 'verify', join(directory, 'thing-state-repair.service'))).toEqual({
      exitCode: 0,
      output: '',
    });
  });

  test('leaves a sound file system as it is', async () => {
    await repair();
    expect(await identity()).toMatch(/^the key/);
  });

  test('keeps what is there when a power cut tore the superblock, which fsck by itself does not mend', async () => {
    await overwrite(1024 + 512, Buffer.alloc(512, 0x5a));
    expect((await run('e2fsck', '-p', image)).exitCode).toBeGreaterThanOrEqual(4);
    await repair();
    expect(await identity()).toMatch(/^the key/);
  });

  test('makes the file system anew where nothing is left of it', async () => {
    await overwrite(0, Buffer.alloc(64 * 1024 * 1024));
    await repair();
    expect(await identity()).toMatch(/File not found/);
  });
});
