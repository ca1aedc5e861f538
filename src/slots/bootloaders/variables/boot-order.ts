import { isDeepStrictEqual } from 'node:util';

import type { SlotName } from '../../../update/ports.ts';
import { otherSlot, slotNamed } from '../boot-environment.ts';
import type { BootChange, BootNames, SlotBootStates } from '../boot-environment.ts';
import { changeTrialMark } from './trial-mark.ts';
import type { TrialMark } from './trial-mark.ts';

/**
 * The choice of U-Boot and GRUB, in RAUC's scheme (RAUC documentation, "Integration", sections U-Boot and GRUB): the
 * bootloader boots the first slot of the order that has attempts left, and takes one attempt from it before it starts.
 * If no slot has any left, all counters are reset. A slot that is not in the order never boots.
 */
export interface BootOrder {
  /** At least one slot, each at most once. */
  readonly order: readonly SlotName[];
  /** 0 for a slot that is not in the order. */
  readonly attemptsLeft: Readonly<Record<SlotName, number>>;
  /** Names in the order that do not belong to slots, for example to a rescue system. They are kept behind the slots. */
  readonly others?: readonly string[] | undefined;
  /** Omitted if never written, as by older agents or a factory. */
  readonly trial: TrialMark | undefined;
}

/** With more names, the text is not a boot order. */
const MAX_OTHERS = 8;

/**
 * Applies a change. `attempts` is the number of boot attempts for a committed slot, and for the slot that a trial falls
 * back to. Pure and idempotent.
 */
export function changeOrder(state: BootOrder, change: BootChange, attempts: number): BootOrder {
  const { kind, slot } = change;
  const other = otherSlot(slot);
  const others = state.order.filter((name) => name !== slot);
  const left = state.attemptsLeft[other];
  const kept = { trial: changeTrialMark(state.trial, change), others: state.others };
  switch (kind) {
    case 'mark-unbootable':
      return { order: others, attemptsLeft: counters(slot, 0, left), ...kept };
    case 'try-once':
      return { order: [slot, other], attemptsLeft: counters(slot, 1, attempts), ...kept };
    case 'commit':
      return change.otherBoots === true
        ? { order: [slot, other], attemptsLeft: counters(slot, attempts, attempts), ...kept }
        : { order: [slot, ...others], attemptsLeft: counters(slot, attempts, left), ...kept };
  }
}

function counters(slot: SlotName, own: number, others: number): BootOrder['attemptsLeft'] {
  return slot === 'A' ? { A: own, B: others } : { A: others, B: own };
}

export function sameOrder(one: BootOrder, two: BootOrder): boolean {
  return (
    one.order.join() === two.order.join() &&
    isDeepStrictEqual(one.others, two.others) &&
    one.attemptsLeft.A === two.attemptsLeft.A &&
    one.attemptsLeft.B === two.attemptsLeft.B &&
    isDeepStrictEqual(one.trial, two.trial)
  );
}

/**
 * True if the other slot can serve as fallback. A slot that was never committed cannot. Without a mark the counters
 * decide: a slot without attempts may be on trial right now, so it is not a fallback for a slot that has some. If
 * neither has any (a trial fell back, and the running slot is not yet committed again), the other slot can.
 */
export function canSpareInOrder({ order, attemptsLeft, trial }: BootOrder, slot: SlotName): boolean {
  const other = otherSlot(slot);
  if (trial?.kind === 'on-trial' && trial.slot === other) return false;
  return order.includes(other) && (attemptsLeft[other] > 0 || attemptsLeft[slot] === 0);
}

/**
 * True if the running slot is on trial. A slot outside of the order will not boot again, marked or not. Without a mark,
 * a slot is on trial if it has used up its only attempt and the other slot has some, since every agent arms a trial
 * like that. If committed slots have only one attempt, too, counters show nothing.
 */
export function isOnTrial({ order, attemptsLeft, trial }: BootOrder, booted: SlotName, attempts: number): boolean {
  const other = otherSlot(booted);
  if (!order.includes(other)) return false;
  if (!order.includes(booted)) return true;
  if (trial !== undefined) return trial.kind === 'on-trial' && trial.slot === booted;
  return attempts > 1 && order[0] === booted && attemptsLeft[booted] === 0 && attemptsLeft[other] > 0;
}

export function inspectOrder(state: BootOrder): SlotBootStates {
  const { order, attemptsLeft, trial } = state;
  const [first = 'A'] = order;
  const primary = order.find((slot) => attemptsLeft[slot] > 0) ?? first;
  const exhausted = order.every((slot) => attemptsLeft[slot] === 0);
  const lastWordOf = (slot: SlotName) =>
    trial?.kind === 'left' && trial.slot === slot ? { lastWord: trial.lastWord } : {};
  const describe = (slot: SlotName) => {
    if (!order.includes(slot)) return { bootable: false, detail: 'not in the boot order', ...lastWordOf(slot) };
    const left = attemptsLeft[slot];
    const place = order.length > 1 && slot !== order[0] ? 'fallback' : 'first';
    return {
      bootable: left > 0 || exhausted,
      detail: `${place}, ${left} boot ${left === 1 ? 'attempt' : 'attempts'} left`,
    };
  };
  return { primary, trialIsGuessed: trial === undefined, slots: { A: describe('A'), B: describe('B') } };
}

/** Parses boot names with white space between. Returns undefined if a name is repeated, or none belongs to a slot. */
export function parseOrder(text: string, names: BootNames): Pick<BootOrder, 'order' | 'others'> | undefined {
  const words = text.split(/\s+/).filter((word) => word !== '');
  const order = words.map((word) => slotNamed(word, names)).filter((slot) => slot !== undefined);
  const others = words.filter((word) => slotNamed(word, names) === undefined);
  if (order.length === 0 || others.length > MAX_OTHERS || new Set(words).size !== words.length) return undefined;
  return others.length === 0 ? { order } : { order, others };
}

export function formatOrder({ order, others = [] }: BootOrder, names: BootNames): string {
  return [...order.map((slot) => names[slot]), ...others].join(' ');
}
