import { join } from 'node:path';

/** The folder where Linux shows partitions by their names. */
export const PARTITION_NAMES = '/dev/disk/by-partlabel';

/** The paths of two partitions whose names differ in the letter of their slot. */
export interface SlotPair {
  /** The common part of the names without the letter, for example `rootfs`. */
  readonly name: string;
  readonly A: string;
  readonly B: string;
}

/**
 * Names of partitions that are slots. Other pairs, such as `data0` and `data1`, may hold data and must not be
 * overwritten.
 */
const SLOT_NAME =
  /^(?<name>root|rootfs|system|os|slot|image|boot|bootfs|kernel|firmware)(?<between>[-_.]?)(?<slot>[aA0])$/i;
const ROOT_NAME = /^(root|rootfs|system|os|slot|image)$/i;
const second: Readonly<Record<string, string>> = { a: 'b', A: 'B', '0': '1' };

/** Finds pairs of slots by the names of their partitions. The pair of the root file system comes first. */
export function findSlotPairs(partitions: readonly string[]): readonly SlotPair[] {
  const known = new Set(partitions);
  const pairs = partitions.flatMap((first) => {
    const { name = '', between = '', slot = '' } = SLOT_NAME.exec(first)?.groups ?? {};
    const partner = `${name}${between}${second[slot] ?? ''}`;
    if (slot === '' || !known.has(partner)) return [];
    return [{ name: name.toLowerCase(), A: join(PARTITION_NAMES, first), B: join(PARTITION_NAMES, partner) }];
  });
  return pairs.toSorted((one, other) => Number(ROOT_NAME.test(other.name)) - Number(ROOT_NAME.test(one.name)));
}

/** True if one of these may be a slot, though its partner was not found or has a different name pattern. */
export function hasSlotName(partitions: readonly string[]): boolean {
  return partitions.some((name) => SLOT_NAME.test(name.replace(/[bB]$/, 'a').replace(/1$/, '0')));
}
