import type { SlotName } from '../../ports.ts';
import { hasSlotPayload } from '../state.ts';
import type { FirmwareRecord, Installed, PartitionRecord, SlotsKnowledge, UpdateState } from '../state.ts';

/**
 * Invariant 2: forgets what was recorded of these partitions, which hold or are about to hold something else. The slot
 * then also counts as one that was not seen to run.
 */
export function forgetPartitions(slots: SlotsKnowledge, slot: SlotName, targets: readonly string[]): SlotsKnowledge {
  const kept = Object.entries(slots[slot].records).filter(([target]) => !targets.includes(target));
  return { ...slots, [slot]: { records: Object.fromEntries(kept) } };
}

export function rememberPartitions(
  slots: SlotsKnowledge,
  slot: SlotName,
  records: Readonly<Record<string, PartitionRecord>>,
): SlotsKnowledge {
  const known = slots[slot];
  return { ...slots, [slot]: { ...known, records: { ...known.records, ...records } } };
}

export function recordBootable(slots: SlotsKnowledge, slot: SlotName, at: string): SlotsKnowledge {
  return { ...slots, [slot]: { ...slots[slot], seen: { at } } };
}

/** What the other slot holds. */
export function previousAfter(
  { installed, previous }: UpdateState,
  slot: SlotName,
  firmware: FirmwareRecord,
): Installed | undefined {
  if (!hasSlotPayload(firmware)) return previous;
  return installed?.slot === slot ? previous : installed;
}
