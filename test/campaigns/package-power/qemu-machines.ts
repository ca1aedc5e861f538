import { mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { debianRootFileSystem } from '../../fakes/machine/booting/debian.ts';
import type { DebianRecipe } from '../../fakes/machine/booting/debian.ts';
import { makeGrubDisk } from '../../fakes/machine/booting/disk-images.ts';
import { files, kernelAlone, kernelWhereItIsRead, unitsInUse } from '../../fakes/machine/booting/gateway-root.ts';
import { tool } from '../../fakes/machine/tool.ts';
import { partitionsOf } from '../boots/record.ts';
import type { DiskMachines } from './disk-machines.ts';
import { makeFileSystem, MountedDisk } from './mounted-disk.ts';
import { orderTaker, QemuMachine } from './qemu-machine.ts';

/**
 * The agent's requirements of README.md, a kernel that has NVMe and ext4 built in, and dpkg with all programs of its
 * scripts.
 */
const debian: DebianRecipe = {
  packages: 'systemd-sysv dbus passwd libstdc++6 util-linux udev kmod e2fsprogs linux-image-cloud-amd64'.split(' '),
  finish: `${kernelAlone}${unitsInUse([])}${kernelWhereItIsRead}    rm -rf usr/lib/udev/hwdb* var/lib/apt var/cache/*\n`,
};

/** As Debian's installer leaves it: the kernel mounts the root file system, fsck looks at it, and it becomes writable. */
const ownFiles: Readonly<Record<string, string>> = {
  '/etc/fstab': 'PARTLABEL=rootfs-a / ext4 noatime,errors=remount-ro 0 1\n',
  '/etc/machine-id': '0123456789abcdef0123456789abcdef\n',
  ...orderTaker,
};

/** Emulated machines that GRUB boots. Of the two slots of its disk Debian has the first one, as its only root file system. */
export function qemuMachines(onLine?: (line: string) => void): DiskMachines {
  return {
    serviceTable: '{ url = "http://10.0.2.100", insecure = true }',
    restSeconds: 600,
    makeDisk,
    lend: async (disk, { packages, runtime }) => lend(disk, { '/packages': packages, '/opt/runtime': runtime }),
    boot: async (disk, { service }, log) => {
      const servicePort = Number(new URL(service.url).port);
      return QemuMachine.boot({ disk, log, onLine, servicePort });
    },
  };
}

async function makeDisk(path: string): Promise<void> {
  const slot = `${path}.slot`;
  await makeFileSystem(slot);
  {
    await using mounted = await MountedDisk.of(slot);
    await tool(['tar', '-xf', await debianRootFileSystem(debian), '-C', mounted.root], { timeoutMs: 300_000 });
    await finish(mounted.root);
  }
  await makeGrubDisk({ slot, out: path, bootType: 'ext4', more: '' });
  await rm(slot);
}

async function finish(root: string): Promise<void> {
  // files of the agent's package and of its images
  const others = Object.entries(files).filter(([path]) => !path.includes('thing-') && path !== '/opt/application');
  for (const [path, text] of Object.entries({ ...Object.fromEntries(others), ...ownFiles })) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), text, { mode: text.startsWith('#!') ? 0o755 : 0o644 });
  }
  await symlink('../orders.service', join(root, 'etc/systemd/system/multi-user.target.wants/orders.service'));
}

/** Place there → place here: what is not there yet. */
async function lend(disk: string, folders: Readonly<Record<string, string>>): Promise<void> {
  const sector = (await partitionsOf(disk)).find(({ name }) => name === 'rootfs-a')?.sector;
  await using mounted = await MountedDisk.of(disk, sector);
  for (const [there, here] of Object.entries(folders)) {
    await mkdir(join(mounted.root, there), { recursive: true });
    await tool(['cp', '--update', '--recursive', `${here}/.`, join(mounted.root, there)]);
  }
}
