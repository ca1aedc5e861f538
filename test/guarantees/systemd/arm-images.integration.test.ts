import { mkdir, mkdtemp, open, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { partitionsOf } from '../../campaigns/boots/record.ts';
import { tool } from '../../fakes/machine/tool.ts';
import { evidence } from '../../unit-and-integration/slots/bootloaders/bootloader-contract.ts';
import { GatewayFolder } from '../../unit-and-integration/slots/bootloaders/gateway-folder.ts';
import { run, systemdDirectory } from './installed-root.ts';

const scripts = join(systemdDirectory, 'images');
const signal = new AbortController().signal;
const SECTOR_BYTES = 512;
const MIB = 1024 * 1024;
let folder: string;
let slot: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'arm-images-'));
  slot = join(folder, 'rootfs.ext4');
  await mkdir(join(folder, 'root'));
  await writeFile(join(folder, 'root/vmlinuz'), 'kernel');
  await tool(['mkfs.ext4', '-q', '-d', join(folder, 'root'), slot, '4M']);
  await mkdir(join(folder, 'boot/overlays'), { recursive: true });
  await writeFile(join(folder, 'boot/config.txt'), 'arm_64bit=1\nkernel=kernel8.img\n');
  await writeFile(join(folder, 'boot/cmdline.txt'), 'root=/dev/mmcblk0p2\n');
  await writeFile(join(folder, 'boot/kernel8.img'), 'kernel');
  await writeFile(join(folder, 'boot/overlays/disable-bt.dtbo'), 'overlay');
});

afterAll(async () => {
  await rm(folder, { recursive: true });
});

async function bytesAt(disk: string, offset: number, bytes: number): Promise<Buffer> {
  await using file = await open(disk);
  const { buffer } = await file.read(Buffer.alloc(bytes), 0, bytes, offset);
  return buffer;
}

describe('a disk for U-Boot', () => {
  const made = async (...given: readonly string[]): Promise<{ disk: string; said: string }> => {
    const disk = join(folder, 'uboot.img');
    const said = await tool([join(scripts, 'uboot'), '--slot', slot, '--out', disk, '--slot-size', '8', ...given]);
    return { disk, said };
  };
  /** The boot partition is the first one, behind the environment. */
  const bootScript = async (disk: string, start = 5): Promise<string> => {
    const part = join(folder, 'boot.part');
    await writeFile(part, await bytesAt(disk, start * MIB, 8 * MIB));
    await tool(['debugfs', '-R', `dump /boot.scr ${join(folder, 'boot.scr')}`, part]);
    return (await readFile(join(folder, 'boot.scr'))).subarray(72).toString('utf8');
  };

  test('has its partitions, slot A, and the place where U-Boot is configured to keep its environment', async () => {
    const { disk, said } = await made();
    await tool(['sgdisk', '--verify', disk]);
    const partitions = await partitionsOf(disk);
    expect(partitions.map(({ name }) => name)).toEqual(['boot', 'rootfs-a', 'rootfs-b', 'state', 'environment']);
    const at = (name: string) => (partitions.find((part) => part.name === name)?.sector ?? 0) * SECTOR_BYTES;
    expect((await bytesAt(disk, at('rootfs-a'), 4 * MIB)).equals(await readFile(slot))).toBe(true);
    expect((await bytesAt(disk, at('rootfs-b'), 8 * MIB)).every((byte) => byte === 0)).toBe(true);
    expect(at('environment')).toBe(0x40_0000);
    expect(said).toContain('CONFIG_ENV_SIZE=0x4000 CONFIG_ENV_OFFSET=0x400000 CONFIG_ENV_OFFSET_REDUND=0x480000');
  });

  test('has a boot script that starts what the options say', async () => {
    const { disk } = await made(
      '--device',
      'mmc 2',
      '--dtb',
      '/dtb',
      '--kernel',
      '/Image',
      '--args',
      'quiet loglevel=3',
    );
    const script = await bootScript(disk);
    expect(script).toContain("setenv has_slot_b 'test -e mmc 2:3 /Image'\n");
    const begin = 'setenv bootargs root=PARTLABEL=rootfs-a ${slot_args} ro panic=10 quiet loglevel=3; ';
    const load =
      'load mmc 2:2 ${kernel_addr_r} /Image && load mmc 2:2 ${fdt_addr_r} /dtb && load mmc 2:2 ${ramdisk_addr_r}';
    expect(script).toContain(`setenv boot_slot_a '${begin}echo Slot A: \${bootargs}; ${load} /initrd.img && booti `);
    expect(script).toContain('booti ${kernel_addr_r} ${ramdisk_addr_r}:${filesize} ${fdt_addr_r}');
    expect(script).toMatch(/if saveenv; then/);
    expect(script).toMatch(/^reset\n*$/m);
  });

  test('counts the attempts that it was given, in hexadecimal', async () => {
    const { disk } = await made('--attempts', '17');
    const script = await bootScript(disk);
    expect([...new Set(script.match(/setenv BOOT_[AB]_LEFT [0-9a-f]+$/gm))]).toEqual([
      'setenv BOOT_A_LEFT 11',
      'setenv BOOT_B_LEFT 11',
      'setenv BOOT_A_LEFT 10',
      'setenv BOOT_B_LEFT 10',
    ]);
  });

  test('holds the board’s own code where the board looks for it', async () => {
    await writeFile(join(folder, 'u-boot.bin'), 'board code');
    const { disk } = await made('--first', '16', '--put', `${join(folder, 'u-boot.bin')}@8192`);
    expect((await bytesAt(disk, 8 * MIB, 10)).toString()).toBe('board code');
    await tool(['sgdisk', '--verify', disk]);
    expect(await bootScript(disk, 17)).toContain('saveenv');
  });

  test.each([
    [['--put', 'u-boot.bin@8'], 64, 'must lie between 17 KiB and the environment'],
    [['--put', 'u-boot.bin@4096'], 64, 'must lie between 17 KiB and the environment'],
    [['--put', 'nothing@64'], 66, 'no such file'],
    [['--attempts', '0'], 64, '--attempts is a number from 1 to 99'],
    [['--args', "a'b"], 64, 'must not hold a quotation mark'],
    [['--slot-size', '1'], 64, 'does not fit into a slot of 1 MiB'],
  ])('with %j is refused', async (given, code, message) => {
    await writeFile(join(folder, 'u-boot.bin'), 'board code');
    const options = given.map((text) => text.replace('u-boot.bin', join(folder, 'u-boot.bin')));
    const out = ['--slot', slot, '--out', join(folder, 'refused.img'), ...options];
    const { exitCode, output } = await run(join(scripts, 'uboot'), ...out);
    expect([exitCode, output]).toEqual([code, expect.stringContaining(message) as unknown]);
  });
});

describe('a disk for a Raspberry Pi', () => {
  let disk: string;
  let table: { label: string; id: string; partitions: { node: string; start: number; type: string }[] };
  let starts: Readonly<Record<number, number>>;
  const numberOf = (node: string) => Number(node.slice(disk.length));
  const inPartition = (number: number) => `${disk}@@${(starts[number] ?? 0) * SECTOR_BYTES}`;
  const textIn = async (number: number, path: string) => tool(['mtype', '-i', inPartition(number), `::${path}`]);

  beforeAll(async () => {
    disk = join(folder, 'pi.img');
    const sizes = ['--boot-size', '40', '--slot-size', '8', '--disk-id', '00c0ffee', '--args', 'quiet'];
    const boot = ['--boot', join(folder, 'boot'), '--boot-out', join(folder, 'boot.vfat')];
    await tool([join(scripts, 'raspberrypi'), '--slot', slot, '--out', disk, ...boot, ...sizes]);
    ({ partitiontable: table } = JSON.parse(await tool(['sfdisk', '--json', disk])) as {
      partitiontable: typeof table;
    });
    starts = Object.fromEntries(table.partitions.map(({ node, start }) => [numberOf(node), start]));
  });

  test('has three partitions for the firmware first, then three for Linux, identified by the disk’s number', () => {
    expect([table.label, table.id]).toEqual(['dos', '0x00c0ffee']);
    expect(table.partitions.map(({ node, type }) => `${numberOf(node)} ${type}`)).toEqual([
      '1 c',
      '2 c',
      '3 c',
      '4 f',
      '5 83',
      '6 83',
      '7 83',
    ]);
  });

  test('has slot A in its partitions, and leaves the partitions of slot B empty', async () => {
    const boot = await readFile(join(folder, 'boot.vfat'));
    const at = async (number: number, bytes: number) => bytesAt(disk, (starts[number] ?? 0) * SECTOR_BYTES, bytes);
    expect((await at(2, boot.byteLength)).equals(boot)).toBe(true);
    expect((await at(5, 4 * MIB)).equals(await readFile(slot))).toBe(true);
    expect((await at(3, boot.byteLength)).every((byte) => byte === 0)).toBe(true);
    expect((await at(6, 8 * MIB)).every((byte) => byte === 0)).toBe(true);
  });

  test('has one boot partition for both slots: its config.txt chooses a command line that names the slot’s own root', async () => {
    const config = await textIn(2, '/config.txt');
    expect(chosenCommandLine(config, 2)).toBe('cmdline-a.txt');
    expect(chosenCommandLine(config, 3)).toBe('cmdline-b.txt');
    expect(config).toMatch(/\[all\]\narm_64bit=1\nkernel=kernel8\.img$/);
    const line = (root: string, name: string) =>
      `root=PARTUUID=00c0ffee-${root} rootfstype=ext4 rootwait ro thing.slot=${name} panic=10 quiet`;
    expect([await textIn(2, '/cmdline-a.txt'), await textIn(2, '/cmdline-b.txt')]).toEqual([
      line('05', 'A'),
      line('06', 'B'),
    ]);
    expect(await textIn(2, '/overlays/disable-bt.dtbo')).toBe('overlay');
    await expect(textIn(2, '/cmdline.txt')).rejects.toThrow('File "::/cmdline.txt" not found');
  });

  test('has an autoboot.txt of one sector, which the agent reads and rewrites in place', async () => {
    const bytes = await readFile(disk);
    const text = Buffer.from('[all]\ntryboot_a_b=1\nboot_partition=2\n[tryboot]\nboot_partition=2\n');
    const sector = bytes.indexOf(text);
    expect([sector % SECTOR_BYTES, bytes.indexOf(text, sector + 1)]).toEqual([0, -1]);

    await using gateway = await GatewayFolder.create();
    await gateway.started('A', 2);
    const autoboot = gateway.file('autoboot.txt');
    await tool(['mcopy', '-i', inPartition(1), '::/autoboot.txt', autoboot]);
    const { ino, size } = await stat(autoboot);
    expect(size).toBe(SECTOR_BYTES);
    const bootloader = await gateway.bootloader({ kind: 'tryboot', autoboot, partitions: { A: 2, B: 3 } });
    expect(await bootloader.inspect(signal)).toMatchObject({
      primary: 'A',
      slots: { A: { bootable: true }, B: { bootable: false } },
    });
    expect(await bootloader.bootedSlot(signal)).toBe('A');
    await bootloader.tryOnce('B', evidence, signal);
    expect(await stat(autoboot)).toMatchObject({ ino, size: SECTOR_BYTES });

    // How overwriting the image file damages the medium.
    await using file = await open(disk, 'r+');
    await file.write(await readFile(autoboot), 0, SECTOR_BYTES, sector);
    expect(await textIn(1, '/autoboot.txt')).toMatch(
      /^\[all\]\ntryboot_a_b=1\nboot_partition=2\n\[tryboot\]\nboot_partition=3$/,
    );
    expect((await tool(['mdir', '-b', '-i', inPartition(1)])).trim()).toBe('::/autoboot.txt');
  });

  test('starts its slots with Ubuntu’s config.txt, which names a command line of its own', async () => {
    // As ubuntu-24.04-preinstalled-server-arm64+raspi has it.
    const config =
      '[all]\nkernel=vmlinuz\ncmdline=cmdline.txt\ninitramfs initrd.img followkernel\n\n[pi4]\nmax_framebuffers=2\n';
    const out = await piFrom({ 'config.txt': config });
    expect(out).toMatchObject({ exitCode: 0 });
    const made = await tool(['mtype', '-i', join(folder, 'ubuntu.vfat'), '::/config.txt']);
    expect([chosenCommandLine(made, 2), chosenCommandLine(made, 3)]).toEqual(['cmdline-a.txt', 'cmdline-b.txt']);
    expect(made).toContain('kernel=vmlinuz\ninitramfs initrd.img followkernel\n\n[pi4]\nmax_framebuffers=2');
  });

  test.each([
    [{ 'config.txt': 'kernel=vmlinuz\nos_prefix=current/\n' }, 'config.txt'],
    [{ 'config.txt': 'include syscfg.txt\n', 'syscfg.txt': 'cmdline=nobtcmd.txt\n' }, './syscfg.txt'],
  ])('refuses %j, with which neither slot starts', async (files, name) => {
    expect(await piFrom(files)).toEqual({
      exitCode: 64,
      output: expect.stringContaining(`${name} chooses another command line`) as unknown,
    });
  });

  test.each([
    [{ boot: 'root' }, [], 66, 'config.txt is missing'],
    [{ boot: 'boot' }, ['--disk-id', 'coffee'], 64, '--disk-id is eight hexadecimal digits'],
    [{ boot: 'boot' }, ['--slot-size', '1'], 64, 'does not fit into a slot of 1 MiB'],
  ])('from %j with %j is refused', async ({ boot }, given, code, message) => {
    const from = ['--boot', join(folder, boot), '--slot', slot, '--out', join(folder, 'refused.img')];
    const { exitCode, output } = await run(join(scripts, 'raspberrypi'), ...from, ...given);
    expect([exitCode, output]).toEqual([code, expect.stringContaining(message) as unknown]);
  });
});

/** Makes a disk with these files in its boot partition. */
async function piFrom(files: Readonly<Record<string, string>>): Promise<{ exitCode: number; output: string }> {
  const boot = await mkdtemp(join(folder, 'pi-boot-'));
  for (const [name, text] of Object.entries(files)) await writeFile(join(boot, name), text);
  const out = ['--out', join(folder, 'other-pi.img'), '--boot-out', join(folder, 'ubuntu.vfat'), '--boot-size', '40'];
  return run(join(scripts, 'raspberrypi'), '--boot', boot, '--slot', slot, ...out);
}

/** As the firmware reads config.txt: a section that names another boot partition is passed over, the last line wins. */
function chosenCommandLine(config: string, partition: number): string | undefined {
  let holds = true;
  let chosen: string | undefined;
  for (const line of config.split('\n')) {
    if (line.startsWith('[')) holds = line === '[all]' || line === `[boot_partition=${partition}]`;
    const value = /^cmdline=(.*)$/.exec(line)?.[1];
    if (holds && value !== undefined) chosen = value;
  }
  return chosen;
}
