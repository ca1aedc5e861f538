import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { imageScripts } from '../../fakes/machine/booting/disk-images.ts';
import { newUefi, qemuGateway } from '../../fakes/machine/booting/qemu-gateway.ts';
import { tool } from '../../fakes/machine/tool.ts';
import { run } from './installed-root.ts';

/** The deadline for a UEFI in an emulated machine that gets little CPU time. */
const DEADLINE_MS = 10 * 60_000;
/** The start of the EFI system partition on the disk, for mtools. */
const ESP = '@@2M';
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'systemd-boot-'));
  await writeFile(join(folder, 'slot'), 'a slot');
  for (const slot of ['a', 'b']) await makeKernel(slot);
});

afterAll(async () => {
  await rm(folder, { recursive: true });
});

/** The partition of a slot's kernel: a program of UEFI that prints the slot on the first serial port, and resets the machine. */
async function makeKernel(slot: string): Promise<void> {
  const root = join(folder, `root-${slot}`);
  await mkdir(root);
  const script = join(folder, 'script');
  await writeFile(script, `serial --unit=0\nterminal_output serial\necho "this is slot ${slot}"\nreboot\n`);
  const program = ['-O', 'x86_64-efi', '-p', '/', '-c', script, '-o', join(root, 'gateway.efi')];
  await tool(['grub-mkimage', ...program, 'serial', 'terminal', 'echo', 'reboot']);
  await tool(['mkfs.ext4', '-q', '-d', root, join(folder, `kernel-${slot}`), '4M']);
}

async function makeDisk(...given: readonly string[]): Promise<string> {
  const disk = join(folder, 'gateway.img');
  const kernel = ['--kernel', join(folder, 'kernel-a')];
  await tool([join(imageScripts, 'systemd-boot'), '--slot', join(folder, 'slot'), ...kernel, '--out', disk, ...given]);
  return disk;
}

/** Calls the handler on the EFI system partition of a disk, as the agent does on the gateway. */
async function handle(disk: string, ...call: readonly string[]): Promise<string> {
  const boot = join(folder, 'boot');
  await rm(boot, { recursive: true, force: true });
  await mkdir(boot);
  await tool(['mcopy', '-s', '-i', `${disk}${ESP}`, '::/loader', '::/thing', boot]);
  const surroundings = [`ESP=${boot}`, `DEVICES=${folder}`, `EFIVARS=${folder}`];
  const answer = await tool(['env', ...surroundings, join(imageScripts, 'systemd-boot-handler'), ...call]);
  await tool(['mdeltree', '-i', `${disk}${ESP}`, '::/loader', '::/thing']);
  await tool(['mcopy', '-s', '-i', `${disk}${ESP}`, join(boot, 'loader'), join(boot, 'thing'), '::/']);
  return answer.trim();
}

async function entriesOf(disk: string): Promise<readonly string[]> {
  await handle(disk, 'get-primary');
  return (await readdir(join(folder, 'boot/loader/entries'))).toSorted();
}

describe('a disk for systemd-boot', () => {
  test('has its partitions, and an entry for slot A that always boots', async () => {
    const disk = await makeDisk('--state-size', '8');
    await tool(['sgdisk', '--verify', disk]);
    expect(await tool(['sgdisk', '--print', disk])).toMatch(/EF00 +boot[^]*rootfs-a[^]*rootfs-b[^]*state[^]*kernel-a/);
    expect(await entriesOf(disk)).toEqual(['thing-2-a-ok.conf']);
  });

  test('starts the slot on trial once, and then the other one', { timeout: 2 * DEADLINE_MS }, async () => {
    const disk = await makeDisk('--state-size', '8');
    await handle(disk, 'set-primary', 'B');
    await using gateway = qemuGateway({ disk, efi: newUefi(join(folder, 'variables.fd')), servicePort: 1 });
    gateway.powerOn();
    for (const slot of ['b', 'a', 'a'])
      expect(await gateway.console.until(/this is slot/, DEADLINE_MS)).toContain(`this is slot ${slot}`);
    await gateway.powerOff();
    expect(await entriesOf(disk)).toEqual(['thing-2-a-ok.conf', 'thing-3-b-trial+0-1.conf']);
  });

  test.each([
    [['--kernel', '/nowhere'], 64, 'no such file'],
    [['--loader', '/nowhere'], 69, '/nowhere is missing'],
    [['--slot-size', '0'], 64, 'does not fit into a slot of 0 MiB'],
    [['--nonsense'], 64, 'unknown argument --nonsense'],
  ])('with %j is refused', async (given, code, message) => {
    const files = ['--slot', join(folder, 'slot'), '--kernel', join(folder, 'kernel-a')];
    const out = ['--out', join(folder, 'refused.img')];
    const { exitCode, output } = await run(join(imageScripts, 'systemd-boot'), ...files, ...out, ...given);
    expect([exitCode, output]).toEqual([code, expect.stringContaining(message) as unknown]);
  });
});
