import assert from 'node:assert';

import type { SlotName } from '../ports.ts';
import { otherSlot } from '../slot.ts';
import { compareSemanticNames } from '../version-order.ts';
import { hasSlotPayload } from './state.ts';
import type {
  EventOf,
  FirmwareRecord,
  Floor,
  Floors,
  Installed,
  PhaseOf,
  SlotKnowledge,
  StateIn,
  UpdateState,
} from './state.ts';

type Payload = FirmwareRecord['payloads'][number];

/**
 * Invariant 2: removes the records of partitions whose content is about to change, or differs. The slot then counts as
 * not seen running.
 */
export function forgetPartitions(
  slots: UpdateState['slots'],
  slot: SlotName,
  targets: readonly string[],
): UpdateState['slots'] {
  const kept = Object.entries(slots[slot].records).filter(([target]) => !targets.includes(target));
  return { ...slots, [slot]: { records: Object.fromEntries(kept) } };
}

export function changeSlot(
  slots: UpdateState['slots'],
  slot: SlotName,
  change: Partial<SlotKnowledge>,
): UpdateState['slots'] {
  return { ...slots, [slot]: { ...slots[slot], ...change } };
}

/** The other slot runs now, with its earlier version. If nothing is known of it, the next check installs again. */
export function swapSlots(state: UpdateState, { booted }: EventOf<'slots-swapped'>): UpdateState {
  const { installed: left } = state;
  const installed = state.earlier.find(({ slot }) => slot === booted);
  const swapped = { installed, earlier: left === undefined ? [] : [left], fellFrom: abandonedAfter(state, booted) };
  return { ...state, ...swapped, pendingSwitch: installed?.version.id };
}

/**
 * Returns the versions that a rollback restores after a commit, the next one first. An update of boards alone replaces
 * the version of the running slot; the other slot keeps its version.
 */
export function earlierAfter(
  { installed, earlier }: UpdateState,
  { attempt, firmware }: PhaseOf<'trial'>,
  slot: SlotName,
): Installed[] {
  const others = earlier.filter((version) => version.slot !== slot);
  if (installed === undefined || (attempt.by === 'rollback' && !hasSlotPayload(firmware))) return others;
  if (!hasSlotPayload(firmware)) return [installed, ...others];
  return installed.slot === slot ? others : [installed];
}

/** Stands for a digest where the board did not hold anything that an update flashed. */
const NOTHING_OF_OURS = 'none';

/**
 * Returns the installed release after an update. After one of boards alone, the slot and the other boards are
 * unchanged. Each payload of a board records the one that it replaced, since restoring the board brings back exactly
 * that one.
 */
function installedWith(firmware: FirmwareRecord, before: Installed | undefined): FirmwareRecord {
  const payloads = firmware.payloads.filter(({ back }) => back !== true).map((payload) => flashedOver(payload, before));
  if (hasSlotPayload(firmware) || before === undefined) return { ...firmware, payloads };
  const brought = new Set(payloads.map(({ target }) => target));
  const kept = before.payloads.filter(({ target }) => !brought.has(target));
  return { ...firmware, provides: { ...before.provides, ...firmware.provides }, payloads: [...kept, ...payloads] };
}

function flashedOver(payload: Payload, before: Installed | undefined): Payload {
  if (payload.kind === 'slots') return payload;
  const held = before?.payloads.find(({ kind, target }) => kind !== 'slots' && target === payload.target);
  return { ...payload, over: held?.digest ?? NOTHING_OF_OURS };
}

/** True if undoing the present payload of a board brings back the earlier one. */
export function restoresTo(now: Payload, then: Payload | undefined): boolean {
  return now.over === undefined || now.over === (then?.digest ?? NOTHING_OF_OURS);
}

/** Returns the installed release after a commit: the content of the update or rollback, and the unchanged rest. */
export function installedAfterCommit(
  { installed, earlier }: UpdateState,
  { attempt, firmware }: PhaseOf<'trial'>,
  slot: SlotName,
): FirmwareRecord {
  const restored = attempt.by === 'rollback' ? earlier.find((version) => version.slot === slot) : undefined;
  const { digest, signedBy } = firmware;
  return { ...(restored ?? installedWith(firmware, installed)), digest, signedBy };
}

/**
 * Returns the abandoned version if another slot runs than the committed one. It is kept until its boards have followed
 * and it was reported. A trial that is being abandoned ends on its own, and a slot that runs again was not abandoned.
 */
function abandonedAfter(state: UpdateState, booted: SlotName): UpdateState['fellFrom'] {
  const { phase, installed, fellFrom } = state;
  if (phase.kind === 'rolling-back' && hasSlotPayload(phase.firmware)) return fellFrom;
  if (fellFrom !== undefined) return fellFrom.slot === booted ? undefined : fellFrom;
  return installed;
}

/** A rollback in which only the boards are to be done. */
export function boardsOnlyRollback(
  state: UpdateState,
  { attempt, boards, stay }: EventOf<'slot-abandoned'>,
): StateIn<'rolling-back'> {
  const { fellFrom } = state;
  assert(fellFrom !== undefined, 'no slot was abandoned');
  const { digest, slot, version } = fellFrom;
  const other = otherSlot(slot);
  const why = `slot ${other} runs again, though ${version.name} was committed in slot ${slot}: the bootloader fell back, or an operator chose it`;
  return {
    ...state,
    fellFrom: undefined,
    phase: {
      kind: 'rolling-back',
      attempt,
      slot: other,
      firmware: { digest, provides: {}, payloads: boards },
      code: stay.length === 0 ? 'fell-back' : 'board-not-restored',
      reason: stay.length === 0 ? why : `${why}; ${stay.join(', ')} cannot follow, and stays as it is`,
      fault: 'world',
      boards: Object.fromEntries(boards.map(({ target }) => [target, 'flashed'])),
      restores: 0,
    },
  };
}

/** Guarantee `floors`: the minimum after a commit of a signed release, or of the image of a board. It never falls. */
export function raiseFloor(floor: Floor | undefined, { securityVersion, name, factory }: Floor): Floor {
  const numbers = [floor?.securityVersion, securityVersion].filter((number) => number !== undefined);
  const isHigher = name !== undefined && compareSemanticNames(name, floor?.name ?? '') > 0;
  return {
    securityVersion: numbers.length === 0 ? undefined : Math.max(...numbers),
    name: isHigher ? name : floor?.name,
    factory: floor?.factory ?? factory,
  };
}

/** Returns the minimums after this release was committed. An unsigned one raises none. */
export function raiseFloors({ floor, boardFloors }: Floors, release: FirmwareRecord): Floors {
  if (release.signedBy === undefined) return { floor, boardFloors };
  const boards = { ...boardFloors };
  for (const { target, kind, securityCounter, imageVersion } of release.payloads) {
    if (kind !== 'mcu' || (securityCounter ?? imageVersion) === undefined) continue;
    boards[target] = raiseFloor(boards[target], { securityVersion: securityCounter, name: imageVersion });
  }
  return { floor: raiseFloor(floor, release), boardFloors: Object.keys(boards).length === 0 ? undefined : boards };
}
