import type { BigIntStats } from 'node:fs';
import { stat } from 'node:fs/promises';

import { valueOrUndefined } from '../errors.ts';

/** Identifies bytes, whatever their path: `block:MAJOR:MINOR`, `char:MAJOR:MINOR`, or `file:DEVICE:INODE`. */
export type DeviceIdentity = string;

export function identityOf(stats: BigIntStats): DeviceIdentity {
  if (stats.isBlockDevice()) return `block:${deviceNumber(stats.rdev)}`;
  if (stats.isCharacterDevice()) return `char:${deviceNumber(stats.rdev)}`;
  return `file:${stats.dev}:${stats.ino}`;
}

/** `MAJOR:MINOR` of a device number as glibc packs it (makedev(3)). */
export function deviceNumber(rdev: bigint): string {
  const major = ((rdev >> 8n) & 0xfffn) | ((rdev >> 32n) & 0xfffff000n);
  const minor = (rdev & 0xffn) | ((rdev >> 12n) & 0xffffff00n);
  return `${major}:${minor}`;
}

/** True if both paths lead to one device or file. False if nothing is there. */
export async function isSameDevice(one: string, other: string): Promise<boolean> {
  const [found, second] = await Promise.all([deviceAt(one), deviceAt(other)]);
  return found !== undefined && found === second;
}

/** Returns what identifies the device or file at a path, or undefined if nothing is there. */
export async function deviceAt(path: string): Promise<DeviceIdentity | undefined> {
  const facts = await valueOrUndefined(stat(path, { bigint: true }));
  return facts && identityOf(facts);
}
