import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';

import { mapError, systemErrorCode, undefinedIf } from '../system/errors.ts';
import { identityOf } from '../system/files/same-device.ts';
import type { DeviceIdentity } from '../system/files/same-device.ts';
import { slotError } from './errors.ts';

/** The directories where the kernel shows its devices. */
export interface KernelPaths {
  readonly proc: string;
  readonly sys: string;
}

export const realSystem: KernelPaths = { proc: '/proc', sys: '/sys' };

/** The depth of block devices on top of each other: partition, loop, dm, md… */
const maxStackDepth = 8;

/**
 * Returns the identity of the file or device at a path, through symbolic links, or undefined if none is visible there.
 */
export async function identityAt(path: string): Promise<DeviceIdentity | undefined> {
  const found = await unlessAbsent(path, stat(path, { bigint: true }));
  return found && identityOf(found);
}

/** The device and all devices below it: those that a device mapper joins, or that hold the file of a loop device. */
export async function withUnderlying(
  identity: DeviceIdentity,
  system: KernelPaths,
  depth = 0,
): Promise<ReadonlySet<DeviceIdentity>> {
  const found = new Set([identity]);
  const folder = sysFolder(identity, system);
  if (folder === undefined || depth >= maxStackDepth) return found;
  for (const below of await directlyBelow(folder)) {
    for (const each of await withUnderlying(below, system, depth + 1)) found.add(each);
  }
  return found;
}

/** The folder /sys/dev/block/MAJOR:MINOR of a block device. */
export function sysFolder(identity: DeviceIdentity, system: KernelPaths): string | undefined {
  const number = /^block:(\d+:\d+)$/u.exec(identity)?.[1];
  return number === undefined ? undefined : join(system.sys, 'dev/block', number);
}

/** Returns the only line of a kernel's file, or undefined if there is none. */
export async function kernelText(path: string): Promise<string | undefined> {
  return (await unlessAbsent(path, readFile(path, 'utf8')))?.replace(/\n$/u, '');
}

/** The names in a directory; empty if it does not exist. */
export async function namesIn(folder: string): Promise<readonly string[]> {
  return (await unlessAbsent(folder, readdir(folder))) ?? [];
}

async function unlessAbsent<T>(path: string, look: Promise<T>): Promise<T | undefined> {
  return mapError(undefinedIf(isAbsence, look), (error) => slotError(path, 'look at it', error));
}

async function directlyBelow(folder: string): Promise<readonly DeviceIdentity[]> {
  const below: DeviceIdentity[] = [];
  for (const slave of await namesIn(join(folder, 'slaves'))) {
    const number = await kernelText(join(folder, 'slaves', slave, 'dev'));
    if (number !== undefined) below.push(`block:${number}`);
  }
  const backing = await kernelText(join(folder, 'loop/backing_file'));
  const backingIdentity = backing === undefined ? undefined : await identityAt(backing);
  return backingIdentity === undefined ? below : [...below, backingIdentity];
}

/**
 * True if the error means that there is nothing to see: devices come and go at any time, and not every process may see
 * everything.
 */
function isAbsence(error: unknown): boolean {
  return ['ENOENT', 'ENOTDIR', 'ENODEV', 'ENXIO', 'EACCES'].includes(systemErrorCode(error) ?? '');
}
