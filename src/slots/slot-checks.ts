import { realpath, stat } from 'node:fs/promises';
import { join } from 'node:path';

import { identityOf } from '../system/files/same-device.ts';
import type { DeviceIdentity } from '../system/files/same-device.ts';
import type { SlotName } from '../update/ports.ts';
import type { KernelPaths } from './device-identity.ts';
import { identityAt, kernelText, sysFolder } from './device-identity.ts';
import { SlotError, slotError } from './errors.ts';
import { findMountedSlot, findUse } from './mounts.ts';
import type { MediumPlace } from './slot-medium.ts';

/**
 * Source: Linux Documentation/ABI/stable/sysfs-block: `size` counts sectors of 512 bytes, whatever the sectors of the
 * device.
 */
const sysfsSectorBytes = 512;

export interface SlotPlace extends MediumPlace {
  readonly identity: DeviceIdentity;
  /** The size of the device, or of the file that stands for it. */
  readonly capacityBytes: number;
  readonly readOnly: boolean;
}

export interface SlotCheckInput {
  readonly slot: SlotName;
  readonly slots: Readonly<Record<SlotName, string>>;
  readonly booted: SlotName;
  /** The slots of other targets, which must be other devices. */
  readonly others: readonly string[];
  /** Omitted if unknown before the end. */
  readonly sizeBytes: number | undefined;
}

/** Finds a slot through symbolic links. Throws if it is missing, or neither a block device nor a file. */
export async function locateSlot(slot: SlotName, path: string, system: KernelPaths): Promise<SlotPlace> {
  const where = `slot ${slot} (${path})`;
  try {
    const realPath = await realpath(path);
    const stats = await stat(realPath, { bigint: true });
    if (!stats.isBlockDevice() && !stats.isFile())
      throw new SlotError('slot-wrong-kind', where, 'is neither a block device nor a regular file');
    const place = { where, path: realPath, identity: identityOf(stats), isBlockDevice: stats.isBlockDevice() };
    if (!place.isBlockDevice) return { ...place, capacityBytes: Number(stats.size), readOnly: false };
    return { ...place, ...(await blockDeviceFacts(where, place.identity, system)) };
  } catch (error) {
    throw slotError(where, 'look at it', error);
  }
}

/**
 * Guarantee `running-slot`: throws unless this slot may be overwritten and the image fits. Nothing has been opened yet.
 */
export async function checkSlot(admission: SlotCheckInput, system: KernelPaths): Promise<SlotPlace> {
  const { slot, slots, booted, others, sizeBytes } = admission;
  const other = slot === 'A' ? 'B' : 'A';
  const place = await locateSlot(slot, slots[slot], system);
  const { where } = place;
  if (place.identity === (await locateSlot(other, slots[other], system)).identity) {
    throw new SlotError('slots-identical', where, `is the same device as slot ${other} (${slots[other]})`);
  }
  for (const path of others) {
    if ((await identityAt(path)) !== place.identity) continue;
    throw new SlotError('slots-identical', where, `is the same device as a slot of another target (${path})`);
  }
  if (slot === booted || slot === (await findMountedSlot(slots, system))) {
    throw new SlotError('slot-booted', where, 'is the running system');
  }
  await refuseUsed(place, system);
  if (place.readOnly) throw new SlotError('slot-read-only', where, 'is read-only');
  if (sizeBytes !== undefined && sizeBytes > place.capacityBytes) {
    throw new SlotError('slot-too-small', where, `holds ${place.capacityBytes} bytes, the image has ${sizeBytes}`);
  }
  return place;
}

async function refuseUsed(place: SlotPlace, system: KernelPaths): Promise<void> {
  const use = await findUse(place.identity, system);
  if (use === undefined) return;
  if (use.kind === 'mounted') throw new SlotError('slot-mounted', place.where, `is mounted at ${use.at}`);
  throw new SlotError('slot-busy', place.where, use.kind === 'swap' ? 'is in use as swap' : `is in use by ${use.by}`);
}

async function blockDeviceFacts(
  where: string,
  identity: DeviceIdentity,
  system: KernelPaths,
): Promise<Pick<SlotPlace, 'capacityBytes' | 'readOnly'>> {
  const folder = sysFolder(identity, system) ?? '';
  const sectors = await kernelText(join(folder, 'size'));
  if (sectors === undefined) {
    throw new SlotError('slot-disappeared', where, `its size is unknown: ${folder} cannot be read`);
  }
  const readOnly = (await kernelText(join(folder, 'ro'))) === '1';
  return { capacityBytes: Number(sectors) * sysfsSectorBytes, readOnly };
}
