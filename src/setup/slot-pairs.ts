/** Where Linux shows partitions by their names. */
export const PARTITION_NAMES = '/dev/disk/by-partlabel';

/** Two partitions whose names differ in the letter of their slot. */
export interface SlotPair {
  /** Without the letter, e.g. `rootfs`. */
  readonly name: string;
  readonly A: string;
  readonly B: string;
}

/** What partitions of slots are called; others that come in twos, such as `data0` and `data1`, are nobody's to overwrite. */
const SLOT_NAME =
  /^(?<name>root|rootfs|system|os|slot|image|boot|bootfs|kernel|firmware)(?<between>[-_.]?)(?<slot>[aA0])$/i;
const ROOT_NAME = /^(root|rootfs|system|os|slot|image)$/i;
const second: Readonly<Record<string, string>> = { a: 'b', A: 'B', '0': '1' };

/** Pairs of slots by the names of their partitions, that of the root file system first. */
export function findSlotPairs(partitions: readonly string[]): readonly SlotPair[] {
  const known = new Set(partitions);
  const pairs = partitions.flatMap((first) => {
    const { name = '', between = '', slot = '' } = SLOT_NAME.exec(first)?.groups ?? {};
    const partner = `${name}${between}${second[slot] ?? ''}`;
    return slot !== '' && known.has(partner) ? [{ name: name.toLowerCase(), A: first, B: partner }] : [];
  });
  return pairs.toSorted((one, other) => Number(ROOT_NAME.test(other.name)) - Number(ROOT_NAME.test(one.name)));
}
