import type { SlotName } from './ports.ts';

export function otherSlot(slot: SlotName): SlotName {
  return slot === 'A' ? 'B' : 'A';
}
