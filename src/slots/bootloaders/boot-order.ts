import { isDeepStrictEqual } from 'node:util';

import type { BootNames } from '../../config/config.ts';
import type { SlotName } from '../../update/ports.ts';
import { otherSlot, slotNamed } from './boot-environment.ts';
import type { BootChange, SaidOfSlots } from './boot-environment.ts';
import { changeTrialMark } from './trial-mark.ts';
import type { TrialMark } from './trial-mark.ts';

/**
 * How U-Boot and GRUB choose, in RAUC's scheme (RAUC documentation, "Integration", sections U-Boot and GRUB): the first
 * slot of the order that has boot attempts left is booted, and one attempt is taken from it before it starts. Where none
 * has any left, all counters start anew. A slot that is not in the order never boots.
 */
export interface BootOrder {
  /** At least one slot, each at most once. */
  readonly order: readonly SlotName[];
  /** 0 for a slot that is not in the order. */
  readonly attemptsLeft: Readonly<Record<SlotName, number>>;
  /** Names in the order that are no slot, such as that of a rescue system. They are kept, behind the slots. */
  readonly others?: readonly string[] | undefined;
  /** Undefined: never written, as by agents before this mark, or by a factory. */
  readonly trial: TrialMark | undefined;
}

/** More is no boot order. */
const MAX_OTHERS = 8;

/** Pure and idempotent. `attempts`: what a committed slot, and the one that a trial falls back to, may use up. */
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
      return { order: [slot, ...others], attemptsLeft: counters(slot, attempts, left), ...kept };
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
 * A slot that was never committed is no fallback. Where nobody has marked it, the counters tell: a slot without attempts
 * left may be on trial right now, and is no fallback for one that has some. Where both have none (a trial fell back, and
 * what runs is not yet committed again), the other is.
 */
export function canSpareInOrder({ order, attemptsLeft, trial }: BootOrder, slot: SlotName): boolean {
  const other = otherSlot(slot);
  if (trial?.kind === 'on-trial' && trial.slot === other) return false;
  return order.includes(other) && (attemptsLeft[other] > 0 || attemptsLeft[slot] === 0);
}

/**
 * A slot that is out of the order does not boot again, marked or not. Without a mark, the slot that runs is on trial if it has used up its only attempt and the other has some: that is how
 * every agent armed a trial. Where a committed slot has one attempt only, too, counters tell nothing.
 */
export function isOnTrial({ order, attemptsLeft, trial }: BootOrder, booted: SlotName, attempts: number): boolean {
  const other = otherSlot(booted);
  if (!order.includes(other)) return false;
  if (!order.includes(booted)) return true;
  if (trial !== undefined) return trial.kind === 'on-trial' && trial.slot === booted;
  return attempts > 1 && order[0] === booted && attemptsLeft[booted] === 0 && attemptsLeft[other] > 0;
}

export function inspectOrder(state: BootOrder): SaidOfSlots {
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

/** Of boot names with white space between; undefined where one is doubled, or no slot is there. */
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
