import { mkdir, mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';

import { tool } from '../../../fakes/machine/tool.ts';
import { partitionOf } from '../disk/recording.ts';
import type { Partition } from '../disk/recording.ts';
import { SECTOR } from '../disk/write-log.ts';
import { imagineStart } from './imagined-start.ts';

type Pair = Readonly<Record<'A' | 'B', string>>;

/** Mount points of a gateway's partitions on this Linux. */
export interface Mounts {
  readonly boot: string;
  readonly state: string;
  readonly slot: string;
  /** Devices. */
  readonly slots: Pair;
  /** For a gateway with two pairs of partitions. */
  readonly kernels: Pair | undefined;
}

export interface Mounting {
  readonly path: string;
  readonly partitions: readonly Partition[];
  readonly folder: string;
  readonly slot: 'A' | 'B';
}

/** Mounts in the order of the slot's fstab, with its checks. */
export async function mountAll(
  parts: AsyncDisposableStack,
  { path, partitions, folder, slot }: Mounting,
): Promise<Mounts> {
  const device = async (name: string): Promise<string> => {
    const { sector, sectors } = partitionOf({ partitions: [...partitions] }, name);
    const area = [`--offset=${sector * SECTOR}`, `--sizelimit=${sectors * SECTOR}`] as const;
    const found = await tool(['losetup', '--find', '--show', ...area, path]);
    parts.defer(async () => void (await tool(['losetup', '--detach', found])));
    return found;
  };
  const mount = async (name: string, from: string, ...options: readonly string[]): Promise<string> => {
    const place = join(folder, name);
    await mkdir(place);
    await tool(['mount', '-t', 'ext4', ...options, from, place]);
    parts.defer(async () => void (await tool(['umount', place])));
    return place;
  };
  /** The repair unit of a boot partition, of the page for integrators. */
  const checked = async (name: string): Promise<string> => {
    const found = await device(name);
    const probe = await mkdtemp(join(folder, 'probe-'));
    const canMount = `{ mount -o ro '${found}' '${probe}' && umount '${probe}'; }`;
    await tool([
      'sh',
      '-c',
      `{ e2fsck -p '${found}'; test $? -lt 4 || ${canMount} || e2fsck -y '${found}'; exit 0; } >&2`,
    ]);
    return found;
  };
  /** The repair unit of the state partition, of the same page. */
  const repaired = async (name: string): Promise<string> => {
    const found = await device(name);
    await tool(['sh', '-c', `{ e2fsck -y '${found}' || test $? -lt 4 || mkfs.ext4 -F '${found}'; } >&2`]);
    return found;
  };
  const slots = { A: await device('rootfs-a'), B: await device('rootfs-b') };
  const hasKernels = partitions.some(({ name }) => name === 'kernel-a');
  const kernels = hasKernels ? { A: await device('kernel-a'), B: await device('kernel-b') } : undefined;
  const root = await mount('slot', slots[slot], '-o', 'ro');
  const boot = await mount('boot', await checked('boot'), '-o', 'noatime');
  const { stateOptions, unit } = imagineStart(root);
  const state = join(folder, 'state');
  if (stateOptions === undefined) await mkdir(state);
  else await mount('state', await repaired('state'), '-o', stateOptions);
  if (unit !== undefined) await tool(['sh', '-c', unitCommands[unit], 'sh', state]);
  return { slots, kernels, slot: root, boot, state };
}

const unitCommands = {
  fill: 'for n in 1 2 3; do dd if=/dev/zero of="$1/ballast.$n" bs=4k conv=fsync 2>/dev/null; done; sync -f "$1"',
  tidy: 'rm -f "$1"/ballast.*; sync -f "$1"',
} as const;
