import type { SlotName } from '../../../update/ports.ts';
import { slotNamed } from '../boot-environment.ts';
import type { BootChange, BootNames } from '../boot-environment.ts';

/**
 * The slot that was armed, and has been neither committed nor abandoned since. Boot counters alone cannot always tell
 * that.
 */
export type TrialMark =
  | { readonly kind: 'none' }
  | { readonly kind: 'on-trial'; readonly slot: SlotName }
  /** The agent in this slot left it, and could not write its journal. */
  | { readonly kind: 'left'; readonly slot: SlotName; readonly lastWord: string };

const NONE = 'none';
const LAST_WORD = /^[a-z][a-z0-9-]{0,39}$/;

/** True if the text is an error code and short enough for every boot environment. */
export function isExitReason(text: string): boolean {
  return LAST_WORD.test(text);
}

/** Parses `none`, `B`, or `B:state-unavailable`. Anything else counts as no mark. */
export function parseTrialMark(text: string, names: BootNames): TrialMark | undefined {
  if (text === NONE) return { kind: 'none' };
  const onTrial = slotNamed(text, names);
  if (onTrial !== undefined) return { kind: 'on-trial', slot: onTrial };
  const colon = text.lastIndexOf(':');
  const slot = slotNamed(text.slice(0, colon), names);
  const lastWord = text.slice(colon + 1);
  return slot !== undefined && isExitReason(lastWord) ? { kind: 'left', slot, lastWord } : undefined;
}

export function formatTrialMark(mark: TrialMark, names: BootNames): string {
  switch (mark.kind) {
    case 'none':
      return NONE;
    case 'on-trial':
      return names[mark.slot];
    case 'left':
      return `${names[mark.slot]}:${mark.lastWord}`;
  }
}

/** The mark after a change. A change of the other slot leaves the mark as it is. */
export function changeTrialMark(
  mark: TrialMark | undefined,
  { kind, slot, lastWord, otherBoots }: BootChange,
): TrialMark {
  if (kind === 'try-once') return { kind: 'on-trial', slot };
  if (kind === 'mark-unbootable' && lastWord !== undefined) return { kind: 'left', slot, lastWord };
  const isOver = mark === undefined || mark.kind === 'none' || mark.slot === slot || otherBoots === true;
  return isOver ? { kind: 'none' } : mark;
}
