import { realpath, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { systemErrorCode } from '../system/errors.ts';
import { SystemError } from '../system/system-errors.ts';
import type { SlotName } from '../update/ports.ts';
import type { DeviceIdentity, SystemView } from './device-identity.ts';
import { identityAt, kernelText, namesIn, realSystem, sysFolder, withUnderlying } from './device-identity.ts';
import { SlotError, slotError } from './errors.ts';
import type { Mount } from './mountinfo.ts';
import { coveringMount, lowerLayers, parseMountinfo, parseSwaps, upperLayer } from './mountinfo.ts';

/** An overlay may lie on another overlay. */
const maxOverlayDepth = 8;

/** Who else uses a device or file. */
export type DeviceUse =
  | { readonly kind: 'mounted'; readonly at: string }
  | { readonly kind: 'swap' }
  | { readonly kind: 'held'; readonly by: string };

/**
 * The slot from which `/` is mounted, through overlays, device mappers and loop devices. Undefined: that cannot be
 * told, as with a network root, an initramfs, or layers that are not visible any more.
 */
export async function findMountedSlot(
  slots: Readonly<Record<SlotName, string>>,
  system: SystemView = realSystem,
): Promise<SlotName | undefined> {
  const mounts = await readMounts(system);
  const root = coveringMount('/', mounts);
  if (root === undefined) return undefined;
  const beneath = await devicesOf(root, mounts, system);
  const a = await identityAt(slots.A);
  const b = await identityAt(slots.B);
  const isA = a !== undefined && beneath.has(a);
  const isB = b !== undefined && beneath.has(b);
  if (isA === isB) return undefined;
  return isA ? 'A' : 'B';
}

/** Throws `state-on-slot` if writing to this directory writes to one of these slots. */
export async function refuseStateOnSlot(
  directory: string,
  slots: readonly string[],
  system: SystemView = realSystem,
): Promise<void> {
  const mounts = await readMounts(system);
  const mount = coveringMount(await nearestExisting(directory), mounts);
  if (mount === undefined) return;
  const written = await devicesWrittenTo(mount, mounts, system);
  for (const slot of slots) {
    const identity = await identityAt(slot);
    if (identity === undefined || !written.has(identity)) continue;
    throw new SlotError('state-on-slot', directory, `lies on the slot ${slot}`);
  }
}

/**
 * Promise `trial-without-state`: throws `state-unavailable` if the directory is lost with the power while a slot, being
 * a device, is not. An update that is begun there would be forgotten at its own reboot. Slots that are files may be as
 * short-lived as the directory.
 */
export async function refuseStateInMemory(
  directory: string,
  slots: readonly string[],
  system: SystemView = realSystem,
  isMemory: (path: string) => Promise<boolean> = liesInMemory,
): Promise<void> {
  const place = await nearestExisting(directory);
  if (!(await isMemory(place)) && !isMemoryWrittenTo(place, await readMounts(system))) return;
  for (const slot of slots) {
    if (!(await isDevice(slot))) continue;
    throw new SystemError(
      'state-unavailable',
      `${directory} lies in memory: the state partition is not mounted there`,
      {
        advice: `mount the state partition at ${directory}, in the image of both slots (systemctl status, /etc/fstab)`,
      },
    );
  }
}

/**
 * The types of tmpfs and ramfs. Source: statfs(2). The path itself is asked, since in the list of mounts one may hide
 * another.
 */
const memoryTypes: ReadonlySet<number> = new Set([0x0102_1994, 0x8584_58f6]);

async function liesInMemory(path: string): Promise<boolean> {
  try {
    return memoryTypes.has((await statfs(path)).type);
  } catch (error) {
    throw slotError(path, 'look at it', error);
  }
}

const memoryFileSystems: ReadonlySet<string> = new Set(['tmpfs', 'ramfs', 'rootfs']);

/** Whether an overlay is written to memory, in any of its layers that take writes. */
function isMemoryWrittenTo(path: string, mounts: readonly Mount[], depth = 0): boolean {
  const mount = coveringMount(path, mounts);
  const upper = mount === undefined ? undefined : upperLayer(mount);
  if (mount?.fileSystem !== 'overlay' || upper === undefined || depth >= maxOverlayDepth) {
    return depth > 0 && memoryFileSystems.has(mount?.fileSystem ?? '');
  }
  return isMemoryWrittenTo(
    upper,
    mounts.filter((other) => other !== mount),
    depth + 1,
  );
}

/** Whether a slot is a device, including one that has not appeared yet. */
async function isDevice(slot: string): Promise<boolean> {
  const identity = await identityAt(slot);
  return identity === undefined ? slot.startsWith('/dev/') : identity.startsWith('block:');
}

/** The nearest existing directory above a path. A directory that is made later will be on its file system. */
async function nearestExisting(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    if (systemErrorCode(error) === undefined) throw error;
    const above = dirname(path);
    return above === path ? path : nearestExisting(above);
  }
}

/** The devices to which a mount writes. An overlay writes to its upper layer; the image below is not written to. */
async function devicesWrittenTo(
  mount: Mount,
  mounts: readonly Mount[],
  system: SystemView,
  depth = 0,
): Promise<ReadonlySet<DeviceIdentity>> {
  if (mount.fileSystem !== 'overlay') return ownDevices(mount, system);
  const upper = upperLayer(mount);
  const others = mounts.filter((other) => other !== mount);
  const below = upper === undefined ? undefined : coveringMount(upper, others);
  if (below === undefined || depth >= maxOverlayDepth) return new Set();
  return devicesWrittenTo(below, others, system, depth + 1);
}

/**
 * The use of a device by a mount that this process can see, as swap, or by another device (dm, md, bcache); undefined:
 * there is none.
 */
export async function findUse(
  identity: DeviceIdentity,
  system: SystemView = realSystem,
): Promise<DeviceUse | undefined> {
  for (const mount of await readMounts(system)) {
    if ((await ownDevices(mount, system)).has(identity)) return { kind: 'mounted', at: mount.mountPoint };
  }
  for (const area of await swapAreas(system)) {
    if ((await withUnderlying(area, system)).has(identity)) return { kind: 'swap' };
  }
  const folder = sysFolder(identity, system);
  const [holder] = folder === undefined ? [] : await namesIn(join(folder, 'holders'));
  return holder === undefined ? undefined : { kind: 'held', by: holder };
}

export async function readMounts(system: SystemView): Promise<readonly Mount[]> {
  const path = join(system.proc, 'self/mountinfo');
  const text = await kernelText(path);
  if (text === undefined) throw new SlotError('mounts-unknown', path, 'cannot be read');
  return parseMountinfo(text);
}

/** The devices of a mount and, if it is an overlay, of the layers below it. */
async function devicesOf(
  mount: Mount,
  mounts: readonly Mount[],
  system: SystemView,
  depth = 0,
): Promise<ReadonlySet<DeviceIdentity>> {
  const found = new Set(await ownDevices(mount, system));
  if (depth >= maxOverlayDepth) return found;
  for (const layer of lowerLayers(mount)) {
    const below = coveringMount(
      layer,
      mounts.filter((other) => other !== mount),
    );
    if (below === undefined) continue;
    for (const each of await devicesOf(below, mounts, system, depth + 1)) found.add(each);
  }
  return found;
}

async function ownDevices(mount: Mount, system: SystemView): Promise<ReadonlySet<DeviceIdentity>> {
  if (!mount.device.startsWith('0:')) return withUnderlying(`block:${mount.device}`, system);
  // btrfs and the like have device numbers of their own; only the source names the device
  const identity = mount.source.startsWith('/dev/') ? await identityAt(mount.source) : undefined;
  return identity === undefined ? new Set() : withUnderlying(identity, system);
}

async function swapAreas(system: SystemView): Promise<readonly DeviceIdentity[]> {
  const text = (await kernelText(join(system.proc, 'swaps'))) ?? '';
  const areas: DeviceIdentity[] = [];
  for (const path of parseSwaps(text)) {
    const identity = await identityAt(path);
    if (identity !== undefined) areas.push(identity);
  }
  return areas;
}
