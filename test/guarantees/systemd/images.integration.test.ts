import { readFileSync, statSync } from 'node:fs';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { GrubProgram } from '../../campaigns/boots/gateways/grub-choice.ts';
import { partitionsOf } from '../../campaigns/boots/record.ts';
import { agentFiles } from '../../fakes/machine/booting/disk-images.ts';
import { tool } from '../../fakes/machine/tool.ts';
import { bootloaderBlock } from '../../unit-and-integration/slots/bootloaders/bootloader-pages.ts';
import { run, systemdDirectory } from './installed-root.ts';
import type { Ended } from './installed-root.ts';

const scripts = join(systemdDirectory, 'images');
const MIB = 1024 * 1024;
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'images-'));
  for (const part of [...agentFiles, 'vmlinuz', 'initrd.img', 'etc/fstab']) {
    await mkdir(dirname(join(folder, 'root', part)), { recursive: true });
    await writeFile(join(folder, 'root', part), part === 'etc/fstab' ? '/dev/mine /boot xfs ro,nofail 0 0\n' : part);
  }
  await tool(['cp', '-r', join(folder, 'root'), join(folder, 'pristine')]);
  await tool([join(scripts, 'slot'), '--root', join(folder, 'root'), '--out', join(folder, 'rootfs.ext4')]);
});

afterAll(async () => {
  await rm(folder, { recursive: true });
});

// Regression: `grub --arch riscv64` missed a --slot, and reported the architecture only once it was given.
test.each([
  ['grub', ['--arch', 'riscv64'], '--arch is amd64, or arm64 with --firmware efi'],
  ['grub', ['--slot', '/nowhere'], '--slot /nowhere: no such file'],
  ['grub', [], '--slot is missing (try --help)'],
  ['slot', ['--bootloader', 'systemd-boot'], '--kernel-out is missing: systemd-boot cannot read a slot'],
  ['slot', ['--key', '/dev/null'], '--key and --cert are for systemd-boot'],
  ['slot', ['--bootloader', 'lilo'], '--bootloader is grub, uboot, raspberrypi or systemd-boot'],
  ['uboot', ['--attempts', '0'], '--attempts is a number from 1 to 99'],
  ['raspberrypi', ['--disk-id', 'coffee'], '--disk-id is eight hexadecimal digits'],
])('%s with %j alone says first what cannot be meant, then what is missing', async (script, given, message) => {
  const { exitCode, output } = await run(join(scripts, script), ...given);
  expect([exitCode, output]).toEqual([64, `${script}: ${message}\n`]);
});

describe('what a slot holds', () => {
  test('is a clean file system with the directory’s content and the missing mounts', async () => {
    const image = join(folder, 'rootfs.ext4');
    await tool(['e2fsck', '-fn', image]);
    const fstab = await tool(['debugfs', '-R', 'cat /etc/fstab', image]);
    expect(fstab).toContain(
      '/dev/mine /boot xfs ro,nofail 0 0\ntmpfs /tmp tmpfs mode=1777,nosuid,nodev 0 0\ntmpfs /var/tmp tmpfs ',
    );
    expect(fstab.match(/\/boot/g)).toHaveLength(1);
    expect(fstab).toContain(bootloaderBlock('fstab state').trim());
    expect(await tool(['debugfs', '-R', 'cat /vmlinuz', image])).toContain('vmlinuz');
    expect(await tool(['dumpe2fs', '-h', image])).not.toMatch(/has_journal|orphan_file|metadata_csum_seed/);
  });

  test('repairs its state before it mounts it, as documented, unless the integrator provides the mount', async () => {
    expect(await repairOf(join(folder, 'rootfs.ext4'), 'state')).toBe(bootloaderBlock('ini state-repair').trim());
    const link = '/etc/systemd/system/var-lib-thing\\x2dagent.mount.requires/thing-state-repair.service';
    expect(await tool(['debugfs', '-R', `stat "${link}"`, join(folder, 'rootfs.ext4')])).toContain('Type: symlink');
    const own = await slotFor('own');
    expect(await tool(['debugfs', '-R', 'cat /etc/fstab', own])).not.toContain('by-partlabel/state');
    expect(await repairOf(own, 'state')).toBe('');
    expect(await repairOf(own, 'boot')).toBe(bootloaderBlock('ini boot-repair').trim());
    expect(await tool(['debugfs', '-R', 'cat /etc/fstab', own])).toContain(bootloaderBlock('fstab boot').trim());
  });

  test('has its kernel in a file of its own, too, where that is wanted', async () => {
    const root = join(folder, 'root-kernel');
    await tool(['cp', '-r', join(folder, 'pristine'), root]);
    await tool(['mkdir', join(root, 'boot')]);
    await tool(['mv', join(root, 'vmlinuz'), join(root, 'boot/vmlinuz-6')]);
    await tool(['ln', '-s', 'boot/vmlinuz-6', join(root, 'vmlinuz')]);
    const [out, kernel] = [`${root}.ext4`, `${root}.kernel.ext4`];
    await tool([join(scripts, 'slot'), '--root', root, '--out', out, '--kernel-out', kernel]);
    await tool(['e2fsck', '-fn', kernel]);
    expect(await tool(['debugfs', '-R', 'cat /vmlinuz', kernel])).toBe('vmlinuz');
    expect(await tool(['debugfs', '-R', 'cat /initrd.img', kernel])).toBe('initrd.img');
    expect(await tool(['debugfs', '-R', 'ls /', kernel])).not.toContain('usr');
  });

  test('needs an agent and a kernel', async () => {
    await mkdir(join(folder, 'empty'), { recursive: true });
    const { exitCode, output } = await run(
      join(scripts, 'slot'),
      '--root',
      join(folder, 'empty'),
      '--out',
      join(folder, 'x'),
    );
    expect([exitCode, output]).toEqual([
      66,
      expect.stringContaining('/usr/lib/thing-agent/agent is missing') as unknown,
    ]);
  });
});

describe('a slot of a root file system', () => {
  const [, service = '', timer = '', config = ''] = agentFiles;
  const slotWithout = async (...missing: readonly string[]): Promise<Ended> => {
    const root = await rootWith('');
    for (const file of missing) await rm(join(root, file));
    const { exitCode, output } = await run(join(scripts, 'slot'), '--root', root, '--out', `${root}.ext4`);
    return { exitCode, output: output.replaceAll(root, 'ROOT') };
  };

  // Regression: such an image was made without a word, and ran without an agent or was rolled back by the trial timer.
  test.each([
    ['thing-agent.service', service],
    ['thing-agent-trial.timer', timer],
  ])('is refused if %s is not enabled', async (unit, file) => {
    expect(await slotWithout(file)).toEqual({
      exitCode: 66,
      output: expect.stringMatching(
        new RegExp(`^slot: ${unit} is not enabled in ROOT: .*; systemctl --root=ROOT enable thing-agent\n$`),
      ) as unknown,
    });
  });

  test('may enable the units by links, in any target and in the directory of the distribution', async () => {
    const root = await rootWith('');
    for (const [file, target] of [
      [service, 'usr/lib/systemd/system/graphical.target.wants/thing-agent.service'],
      [timer, 'etc/systemd/system/basic.target.wants/thing-agent-trial.timer'],
    ] as const) {
      await rm(join(root, file));
      await mkdir(dirname(join(root, target)), { recursive: true });
      await symlink('/nowhere/on/the/build/host', join(root, target));
    }
    const { output } = await run(join(scripts, 'slot'), '--root', root, '--out', `${root}.ext4`);
    expect(output).not.toContain('slot: ');
  });

  test('is made without a configuration, with a warning, since each gateway may get its own', async () => {
    expect(await slotWithout(config)).toEqual({
      exitCode: 0,
      output: expect.stringContaining('slot: warning: ROOT/etc/thing-agent/config.toml is missing') as unknown,
    });
  });
});

describe('what a slot holds for another bootloader', () => {
  test('has what names U-Boot’s environment on its disk, and no place for a boot partition', async () => {
    const image = await slotFor('uboot');
    const fstab = await tool(['debugfs', '-R', 'cat /etc/fstab', image]);
    expect(fstab).toContain('/dev/disk/by-partlabel/state /var/lib/thing-agent ext4');
    expect(fstab).not.toContain(' /boot');
    expect(await repairOf(image, 'boot')).toBe('');
    expect(await tool(['debugfs', '-R', 'cat /etc/fw_env.config', image])).toContain(
      '/dev/disk/by-partlabel/environment 0x0 0x4000\n/dev/disk/by-partlabel/environment 0x80000 0x4000',
    );
  });

  test('mounts autoboot.txt and the state of a Raspberry Pi by the numbers of their partitions', async () => {
    const image = await slotFor('raspberrypi', '--disk-id', '00c0ffee');
    const fstab = await tool(['debugfs', '-R', 'cat /etc/fstab', image]);
    const [repair, boot] = [await repairOf(image, 'state'), await repairOf(image, 'boot')];
    expect(repair).toContain('STATE=/dev/disk/by-partuuid/00c0ffee-07\n');
    expect(repair).toContain('After=dev-disk-by\\x2dpartuuid-00c0ffee\\x2d07.device\n');
    expect(repair).not.toContain('partlabel');
    expect(boot).toContain('BOOT=/dev/disk/by-partuuid/00c0ffee-01\n');
    expect(boot).toContain('BindsTo=dev-disk-by\\x2dpartuuid-00c0ffee\\x2d01.device\n');
    expect(boot.match(/\S+\.mount/g)).toEqual(['Before=boot-default.mount', 'RequiredBy=boot-default.mount']);
    const link = '/etc/systemd/system/boot-default.mount.requires/thing-boot-repair.service';
    expect(await tool(['debugfs', '-R', `stat "${link}"`, image])).toContain('Type: symlink');
    expect(fstab).toContain('/dev/disk/by-partuuid/00c0ffee-01 /boot/default vfat nofail,');
    expect(fstab).toContain('/dev/disk/by-partuuid/00c0ffee-07 /var/lib/thing-agent ext4 nofail,');
    expect(fstab).toContain(String.raw`,x-systemd.wanted-by=dev-disk-by\x2dpartuuid-00c0ffee\x2d07.device,`);
  });

  test.each([
    ['grub', 'UUID=5a7e-0001 / ext4 errors=remount-ro 0 1', 'UUID=5a7e-0001 at /,'],
    ['grub', 'PARTUUID=4e639091-01 /boot/firmware vfat defaults 0 2', 'PARTUUID=4e639091-01 at /boot/firmware,'],
    ['grub', 'PARTLABEL=boot /boot ext4 ro 0 2\nPARTLABEL=data /srv ext4 defaults 0 2', 'PARTLABEL=data at /srv,'],
    ['uboot', '/dev/mmcblk0p9 /srv ext4 defaults 0 2', '/dev/mmcblk0p9 at /srv,'],
    ['raspberrypi', 'PARTUUID=4e639091-02 / ext4 defaults,noatime 0 1', 'PARTUUID=4e639091-02 at /,'],
  ])('for %s refuses a mount of a device that its disk does not have: %s', async (bootloader, line, seen) => {
    const root = await rootWith(line);
    const given = ['--root', root, '--out', join(folder, 'x'), '--bootloader', bootloader];
    const { exitCode, output } = await run(join(scripts, 'slot'), ...given);
    expect([exitCode, output]).toEqual([64, expect.stringContaining(`mounts ${seen}`) as unknown]);
  });

  test.each([
    ['grub', 'PARTLABEL=state /srv ext4 ro 0 2\n# UUID=0 / ext4 ro 0 1\n/dev/sr0 /media/cdrom0 udf user,noauto 0 0'],
    [
      'grub',
      '/dev/root / auto defaults 1 1\nUUID=5a7e-0001 /srv ext4 defaults,nofail 0 2\nproc /proc proc defaults 0 0',
    ],
    ['raspberrypi', 'PARTUUID=7a6d0001-02 /boot/firmware vfat ro 0 0'],
  ])('for %s keeps other lines: %j', async (bootloader, lines) => {
    const root = await rootWith(lines);
    await tool([join(scripts, 'slot'), '--root', root, '--out', `${root}.ext4`, '--bootloader', bootloader]);
    expect(readFileSync(join(root, 'etc/fstab'), 'utf8')).toContain(lines);
  });

  test('rejects an unknown one', async () => {
    const given = ['--root', join(folder, 'root'), '--out', join(folder, 'x'), '--bootloader', 'barebox'];
    const { exitCode, output } = await run(join(scripts, 'slot'), ...given);
    expect([exitCode, output]).toEqual([
      64,
      expect.stringContaining('grub, uboot, raspberrypi or systemd-boot') as unknown,
    ]);
  });
});

async function repairOf(image: string, partition: 'state' | 'boot'): Promise<string> {
  const unit = `/etc/systemd/system/thing-${partition}-repair.service`;
  return tool(['sh', '-c', `debugfs -R 'cat ${unit}' '${image}' 2>/dev/null`]);
}

async function rootWith(fstab: string): Promise<string> {
  const root = await mkdtemp(join(folder, 'root-fstab-'));
  await tool(['cp', '-rT', join(folder, 'pristine'), root]);
  await writeFile(join(root, 'etc/fstab'), `${fstab}\n`);
  return root;
}

/** `own`: for GRUB, with an entry of the integrator's for the state. */
async function slotFor(bootloader: string, ...given: readonly string[]): Promise<string> {
  const root = join(folder, `root-${bootloader}`);
  await tool(['cp', '-r', join(folder, 'pristine'), root]);
  await writeFile(
    join(root, 'etc/fstab'),
    bootloader === 'own' ? '/dev/sdb1 /var/lib/thing-agent ext4 ro,nofail 0 0\n' : '',
  );
  await tool([
    join(scripts, 'slot'),
    '--root',
    root,
    '--out',
    `${root}.ext4`,
    '--bootloader',
    bootloader === 'own' ? 'grub' : bootloader,
    ...given,
  ]);
  return `${root}.ext4`;
}

describe('a disk for GRUB', () => {
  test.each([
    ['bios', 'ext4'],
    ['bios', 'vfat'],
    ['efi', 'vfat'],
  ])(
    'on %s with a boot partition on %s has its partitions, and GRUB starts slot A from it',
    async (firmware, bootType) => {
      const disk = join(folder, `${firmware}-${bootType}.img`);
      const given = ['--firmware', firmware, '--boot-type', bootType, '--slot-size', '16', '--attempts', '2'];
      await tool([join(scripts, 'grub'), '--slot', join(folder, 'rootfs.ext4'), '--out', disk, ...given]);
      await tool(['sgdisk', '--verify', disk]);
      const partitions = await partitionsOf(disk);
      const grub = firmware === 'bios' ? ['grub'] : [];
      expect(partitions.map(({ name }) => name)).toEqual(['boot', 'rootfs-a', 'rootfs-b', 'state', ...grub]);
      const sizes = Object.fromEntries(partitions.map(({ name, sectors }) => [name, (sectors * 512) / MIB]));
      expect([sizes['rootfs-a'], sizes['rootfs-b']]).toEqual([16, 16]);
      const [, a] = partitions;
      const slot = readFileSync(join(folder, 'rootfs.ext4'));
      const offset = (a?.sector ?? 0) * 512;
      expect(
        readFileSync(disk)
          .subarray(offset, offset + slot.byteLength)
          .equals(slot),
      ).toBe(true);
      using program = new GrubProgram(disk);
      expect(await program.start(1, '')).toMatchObject({ starts: ['A'], complaint: undefined });
    },
  );

  test('with kernels in partitions of their own starts only a slot whose kernel is present', async () => {
    const disk = join(folder, 'pairs.img');
    const slot = join(folder, 'rootfs.ext4');
    const kernel = join(folder, 'kernel.ext4');
    await tool(['cp', '-r', join(folder, 'pristine'), join(folder, 'kernels')]);
    const roots = ['--root', join(folder, 'kernels'), '--out', join(folder, 'other.ext4'), '--kernel-out', kernel];
    await tool([join(scripts, 'slot'), ...roots]);
    const size = ['--slot-size', '16', '--boot-size', '12', '--state-size', '8'];
    await tool([join(scripts, 'grub'), '--slot', slot, '--kernel', kernel, '--out', disk, ...size]);
    await tool(['sgdisk', '--verify', disk]);
    const partitions = await partitionsOf(disk);
    expect(partitions.map(({ name }) => name).slice(-3)).toEqual(['grub', 'kernel-a', 'kernel-b']);
    const a = partitions.find(({ name }) => name === 'kernel-a');
    const offset = (a?.sector ?? 0) * 512;
    const image = readFileSync(kernel);
    expect(
      readFileSync(disk)
        .subarray(offset, offset + image.byteLength)
        .equals(image),
    ).toBe(true);
    using program = new GrubProgram(disk);
    expect(await program.start(1, '')).toMatchObject({ starts: ['A'], complaint: undefined });
    await tool(['dd', 'if=/dev/zero', `of=${disk}`, 'bs=512', `seek=${a?.sector ?? 0}`, 'count=64', 'conv=notrunc']);
    expect((await program.start(1, '')).starts).toEqual(['none']);
  });

  test('begins with GRUB’s own code, which knows where to continue', async () => {
    const disk = join(folder, 'code.img');
    await tool([join(scripts, 'grub'), '--slot', join(folder, 'rootfs.ext4'), '--out', disk]);
    const bytes = readFileSync(disk);
    const boot = readFileSync('/usr/lib/grub/i386-pc/boot.img');
    expect(bytes.subarray(0, 0x5c).equals(boot.subarray(0, 0x5c))).toBe(true);
    expect(bytes.readBigUInt64LE(0x5c)).toBe(2048n);
    expect(bytes.readBigUInt64LE(2048 * 512 + 0x1f4)).toBe(2049n);
    const sectors = bytes.readUInt16LE(2048 * 512 + 0x1fc);
    expect(bytes.subarray((2048 + sectors) * 512, (2048 + sectors + 1) * 512).some((byte) => byte !== 0)).toBe(true);
    expect(statSync(disk).size % MIB).toBe(0);
  });

  test('refuses a slot that mounts its boot partition as another file system', async () => {
    const slot = await slotFor('grub');
    const given = ['--slot', slot, '--out', join(folder, 'refused.img'), '--firmware', 'efi'];
    const { exitCode, output } = await run(join(scripts, 'grub'), ...given);
    expect([exitCode, output]).toEqual([
      64,
      expect.stringContaining('mounts /boot as ext4, and this disk has vfat there') as unknown,
    ]);
  });

  test.each([
    [['--firmware', 'coreboot'], 64, '--firmware is bios or efi'],
    [['--arch', 'riscv64', '--firmware', 'efi'], 64, '--arch is amd64, or arm64 with --firmware efi'],
    [['--arch', 'arm64'], 64, '--arch is amd64, or arm64 with --firmware efi'],
    [['--modules', '/nowhere'], 69, '/nowhere is missing'],
    [['--boot-type', 'btrfs'], 64, '--boot-type is ext4 or vfat'],
    [['--slot-size', '1'], 64, 'does not fit into a slot of 1 MiB'],
    [
      ['--out', '/dev/null'],
      64,
      '--out /dev/null is not a regular file: make a file, and copy it to a disk with sectors of 512 bytes',
    ],
    [['--nonsense'], 64, 'unknown argument --nonsense'],
    [['--page', '/nowhere'], 66, 'the page with the bootloader'],
  ])('with %j is refused', async (given, code, message) => {
    const out = ['--slot', join(folder, 'rootfs.ext4'), '--out', join(folder, 'refused.img')];
    const { exitCode, output } = await run(join(scripts, 'grub'), ...out, ...given);
    expect([exitCode, output]).toEqual([code, expect.stringContaining(message) as unknown]);
  });
});
