import { realpath } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { valueOrUndefined } from '../system/errors.ts';
import type { DeviceIdentity } from '../system/files/same-device.ts';
import type { SlotName } from '../update/ports.ts';
import type { KernelPaths } from './device-identity.ts';
import { identityAt, kernelText, namesIn, realSystem, sysFolder, withUnderlying } from './device-identity.ts';
import { SlotError } from './errors.ts';
import type { Mount } from './mountinfo.ts';
import { coveringMount, lowerLayers, parseMountinfo, parseSwaps, upperLayer } from './mountinfo.ts';

/** An overlay may lie on another overlay. */
export const maxOverlayDepth = 8;

/** Another user of a device or file. */
export type DeviceUse =
  | { readonly kind: 'mounted'; readonly at: string }
  | { readonly kind: 'swap' }
  | { readonly kind: 'held'; readonly by: string };

/**
 * Returns the slot from which `/` is mounted, through overlays, device mappers and loop devices. Returns undefined if
 * that is not visible, as with a network root, an initramfs, or layers that are no longer there.
 */
export async function findMountedSlot(
  slots: Readonly<Record<SlotName, string>>,
  system: KernelPaths = realSystem,
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
  system: KernelPaths = realSystem,
): Promise<void> {
  const mounts = await readMounts(system);
  const mount = coveringMount(await nearestExisting(directory), mounts);
  if (mount === undefined) return;
  const written = await devicesWrittenTo(mount, mounts, system);
  for (const slot of slots) {
    const identity = await identityAt(slot);
    if (identity === undefined || !written.has(identity)) continue;
    throw new SlotError('state-on-slot', directory, `is on the slot ${slot}`);
  }
}

/** The nearest existing directory above a path. A directory that is made later will be on its file system. */
export async function nearestExisting(path: string): Promise<string> {
  const above = dirname(path);
  return (await valueOrUndefined(realpath(path))) ?? (above === path ? path : nearestExisting(above));
}

/** The devices to which a mount writes. An overlay writes to its upper layer; the image below is not written to. */
async function devicesWrittenTo(
  mount: Mount,
  mounts: readonly Mount[],
  system: KernelPaths,
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
 * Returns the use of a device by a mount that this process can see, as swap, or by another device (dm, md, bcache), or
 * undefined if there is none.
 */
export async function findUse(
  identity: DeviceIdentity,
  system: KernelPaths = realSystem,
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

export async function readMounts(system: KernelPaths): Promise<readonly Mount[]> {
  const path = join(system.proc, 'self/mountinfo');
  const text = await kernelText(path);
  if (text === undefined) throw new SlotError('mounts-unknown', path, 'cannot be read');
  return parseMountinfo(text);
}

/** The devices of a mount and, if it is an overlay, of the layers below it. */
async function devicesOf(
  mount: Mount,
  mounts: readonly Mount[],
  system: KernelPaths,
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

async function ownDevices(mount: Mount, system: KernelPaths): Promise<ReadonlySet<DeviceIdentity>> {
  if (!mount.device.startsWith('0:')) return withUnderlying(`block:${mount.device}`, system);
  // btrfs and the like have device numbers of their own; only the source names the device
  const identity = mount.source.startsWith('/dev/') ? await identityAt(mount.source) : undefined;
  return identity === undefined ? new Set() : withUnderlying(identity, system);
}

async function swapAreas(system: KernelPaths): Promise<readonly DeviceIdentity[]> {
  const text = (await kernelText(join(system.proc, 'swaps'))) ?? '';
  const areas: DeviceIdentity[] = [];
  for (const path of parseSwaps(text)) {
    const identity = await identityAt(path);
    if (identity !== undefined) areas.push(identity);
  }
  return areas;
}
