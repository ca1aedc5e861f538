import { mkdir, mkdtemp, open, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { partitionsOf } from '../../campaigns/boots/record.ts';
import { agentFiles, imageScripts } from '../../fakes/machine/booting/disk-images.ts';
import { newUefi, qemuGateway } from '../../fakes/machine/booting/qemu-gateway.ts';
import { tool } from '../../fakes/machine/tool.ts';
import { howMuch } from '../../full.ts';

const tinyKernel = join(import.meta.dirname, '../../fakes/machine/booting/tiny-kernel.S');
const SECTOR = 512;
const BLOCK = 1024;
/** The deadline for a UEFI in an emulated machine that gets little CPU time. */
const DEADLINE_MS = 10 * 60_000;
let folder: string;
let slot: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'image-starts-'));
  const root = join(folder, 'root');
  for (const file of ['initrd.img', ...agentFiles]) {
    await mkdir(join(root, file, '..'), { recursive: true });
    await writeFile(join(root, file), file);
  }
  await tool(['gcc', '-c', tinyKernel, '-o', join(folder, 'kernel.o')]);
  const binary = ['-Ttext=0', '--oformat', 'binary', '-o', join(root, 'vmlinuz')] as const;
  await tool(['ld', ...binary, join(folder, 'kernel.o')]);
  await writeFile(join(root, 'etc/fstab'), 'PARTLABEL=boot /boot auto noatime 0 0\n');
  slot = join(folder, 'rootfs.ext4');
  await tool([join(imageScripts, 'slot'), '--root', root, '--out', slot]);
});

afterAll(async () => {
  await rm(folder, { recursive: true });
});

/** The same in slot B, which is to be tried once. */
async function arm(disk: string): Promise<void> {
  const block = join(folder, 'grubenv');
  await tool(['grub-editenv', block, 'create']);
  await tool(['grub-editenv', block, 'set', 'ORDER=B A', 'A_OK=1', 'A_TRY=0', 'B_OK=1', 'B_TRY=2', 'TRIAL=B']);
  const [armed, image, bytes] = [await readFile(block), await readFile(slot), await readFile(disk)];
  const slotB = (await partitionsOf(disk)).find(({ name }) => name === 'rootfs-b');
  await using file = await open(disk, 'r+');
  await file.write(image, 0, image.byteLength, (slotB?.sector ?? 0) * SECTOR);
  for (let at = bytes.indexOf('# GRUB Env'); at >= 0; at = bytes.indexOf('# GRUB Env', at + BLOCK)) {
    if (at % SECTOR === 0) await file.write(armed, 0, BLOCK, at);
  }
}

describe('a disk for GRUB starts the kernel of the tried slot once, and then the kernel of the other slot', () => {
  const disks = [
    ['bios', 'ext4'],
    ['bios', 'vfat'],
    ['efi', 'vfat'],
  ] as const;
  test.each(howMuch<readonly (typeof disks)[number][]>(disks, [disks[2]]))(
    'on %s, with a boot partition on %s',
    { timeout: 2 * DEADLINE_MS },
    async (firmware, bootType) => {
      const disk = join(folder, `${firmware}-${bootType}.img`);
      const given = ['--firmware', firmware, '--boot-type', bootType, '--state-size', '8', '--serial'];
      await tool([join(imageScripts, 'grub'), '--slot', slot, '--out', disk, ...given]);
      await arm(disk);
      const efi = firmware === 'efi' ? newUefi(join(folder, 'variables.fd')) : undefined;
      await using gateway = qemuGateway({ disk, efi, servicePort: 1 });
      gateway.powerOn();
      const trial = 'root=PARTLABEL=rootfs-b thing.slot=B thing.trial=1 ro panic=10';
      await gateway.console.until(new RegExp(`^BOOT_IMAGE=/vmlinuz ${trial}$`), DEADLINE_MS);
      const other = 'root=PARTLABEL=rootfs-a thing.slot=A thing.trial=0 ro panic=10';
      await gateway.console.until(new RegExp(`^BOOT_IMAGE=/vmlinuz ${other}$`), DEADLINE_MS);
      expect(gateway.boots.slice(0, 2)).toEqual(['B', 'A']);
    },
  );
});
