import { readlink, stat, statfs } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';

import { mapError, systemErrorCode, valueOrUndefined } from '../system/errors.ts';
import { SystemError } from '../system/system-errors.ts';
import type { KernelPaths } from './device-identity.ts';
import { identityAt, realSystem } from './device-identity.ts';
import { slotError } from './errors.ts';
import type { Mount } from './mountinfo.ts';
import { coveringMount, upperLayer } from './mountinfo.ts';
import { maxOverlayDepth, nearestExisting, readMounts } from './mounts.ts';

/** The result of checking whether a directory is lost with the power. */
export type Persistence =
  | { readonly kind: 'lasts' }
  | { readonly kind: 'memory' }
  /** In a container it is written to a layer outside of it: only who started the container knows. */
  | { readonly kind: 'unknown'; readonly layer: string };

/**
 * Guarantee `trial-without-state`: throws `state-unavailable` if the directory is lost with the power while a slot, being
 * a device, is not. An update that is begun there would be forgotten at its own reboot. Slots that are files may be as
 * short-lived as the directory.
 */
export async function rejectStateInMemory(
  directory: string,
  slots: readonly string[],
  system: KernelPaths = realSystem,
  kindOf: (path: string) => Promise<FileSystemKind> = fileSystemKind,
): Promise<void> {
  if ((await findPersistence(directory, system, kindOf)).kind !== 'memory' || !(await anyIsDevice(slots))) return;
  throw new SystemError('state-unavailable', `${directory} is in memory: the state partition is not mounted there`, {
    advice: `mount the state partition at ${directory}, in the image of both slots (systemctl status, /etc/fstab)`,
  });
}

/** Finds out where a directory is stored, or will be once it is made. */
export async function findPersistence(
  directory: string,
  system: KernelPaths = realSystem,
  kindOf: (path: string) => Promise<FileSystemKind> = fileSystemKind,
): Promise<Persistence> {
  const place = await nearestExisting(directory);
  const kind = await kindOf(place);
  if (kind === 'memory') return { kind };
  if (kind === 'other') return { kind: 'lasts' };
  return keepingOf(place, { mounts: await readMounts(system), isContainer: await isInContainer(system) });
}

export type FileSystemKind = 'memory' | 'overlay' | 'other';

/** The types of tmpfs, ramfs and overlayfs. Source: statfs(2). */
const kinds: ReadonlyMap<number, FileSystemKind> = new Map([
  [0x0102_1994, 'memory'],
  [0x8584_58f6, 'memory'],
  [0x794c_7630, 'overlay'],
]);

/** Looks at the path itself, since in the list of mounts one may hide another. */
async function fileSystemKind(path: string): Promise<FileSystemKind> {
  const { type } = await mapError(statfs(path), (error) => slotError(path, 'look at it', error));
  return kinds.get(type) ?? 'other';
}

/** The first namespace of processes, whose number is fixed. Source: Linux include/linux/proc_ns.h, PROC_PID_INIT_INO. */
const FIRST_NAMESPACE = 'pid:[4026531836]';

/** True if options of mounts may name paths outside of this process's view. */
async function isInContainer({ proc }: KernelPaths): Promise<boolean> {
  const namespace = await valueOrUndefined(readlink(join(proc, 'self/ns/pid')));
  return namespace !== undefined && namespace !== FIRST_NAMESPACE;
}

/** True if anything is there, even if this process may not read it. */
async function isThere(path: string): Promise<boolean> {
  if (!isAbsolute(path)) return false;
  try {
    await stat(path);
    return true;
  } catch (error) {
    const code = systemErrorCode(error);
    if (code === undefined) throw error;
    return code !== 'ENOENT' && code !== 'ENOTDIR';
  }
}

const memoryFileSystems: ReadonlySet<string> = new Set(['tmpfs', 'ramfs', 'rootfs']);

interface Mounts {
  readonly mounts: readonly Mount[];
  readonly isContainer: boolean;
}

/** An overlay has the persistence of its writable layer. */
async function keepingOf(path: string, { mounts, isContainer }: Mounts, depth = 0): Promise<Persistence> {
  const mount = coveringMount(path, mounts);
  const upper = mount?.fileSystem === 'overlay' && depth < maxOverlayDepth ? upperLayer(mount) : undefined;
  if (upper === undefined) return { kind: depth > 0 && isOfMemory(mount) ? 'memory' : 'lasts' };
  if (isContainer && !(await isThere(upper))) return { kind: 'unknown', layer: upper };
  return keepingOf(upper, { mounts: mounts.filter((other) => other !== mount), isContainer }, depth + 1);
}

function isOfMemory(mount: Mount | undefined): boolean {
  return mount !== undefined && memoryFileSystems.has(mount.fileSystem);
}

/** Including a device that has not appeared yet. */
async function anyIsDevice(slots: readonly string[]): Promise<boolean> {
  for (const slot of slots) {
    const identity = await identityAt(slot);
    if (identity === undefined ? slot.startsWith('/dev/') : identity.startsWith('block:')) return true;
  }
  return false;
}
