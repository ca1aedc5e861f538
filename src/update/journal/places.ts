import assert from 'node:assert';

import type { ImageClaims, SlotName } from '../ports.ts';
import { otherSlot } from '../slot.ts';
import { compareSemanticNames, isSemanticName } from '../version-order.ts';
import { hasSlotPayload } from './state.ts';
import type {
  EventOf,
  FirmwareRecord,
  Floor,
  Installed,
  PartitionRecord,
  PhaseOf,
  SlotsKnowledge,
  StateIn,
  UpdateState,
} from './state.ts';

type Payload = FirmwareRecord['payloads'][number];

/**
 * Invariant 2: removes the records of partitions whose content is about to change, or differs. The slot then counts as
 * not seen running.
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

/** Returns the version in the other slot. */
export function previousAfter(
  { installed, previous }: UpdateState,
  slot: SlotName,
  firmware: FirmwareRecord,
): Installed | undefined {
  if (!hasSlotPayload(firmware)) return previous;
  return installed?.slot === slot ? previous : installed;
}

/** The other slot runs now, with its earlier version. If nothing is known of it, the next check installs again. */
export function swapSlots(state: UpdateState, { booted }: EventOf<'slots-swapped'>): UpdateState {
  const installed = state.previous?.slot === booted ? state.previous : undefined;
  const fellFrom = abandonedAfter(state, booted);
  const swapped = { installed, previous: state.installed, beforeBoards: undefined, fellFrom };
  return { ...state, ...swapped, pendingSwitch: installed?.version.id };
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
  return payload.kind !== 'slots' ? { ...payload, over: digestOn(payload.target, before) } : payload;
}

/** True if undoing the present payload of a board brings back the earlier one. */
export function restoresTo(now: Payload, then: Payload | undefined): boolean {
  return now.over === undefined || now.over === (then?.digest ?? NOTHING_OF_OURS);
}

/** Returns the installed release after a commit: the content of the update or rollback, and the unchanged rest. */
export function installedAfterCommit(
  state: UpdateState,
  { attempt, firmware }: PhaseOf<'trial'>,
  slot: SlotName,
): FirmwareRecord {
  const { installed } = state;
  const before = attempt.by === 'rollback' ? beforeRollback(state, slot, firmware) : undefined;
  const held = before ?? installedWith(firmware, installed);
  const { digest, signedBy } = firmware;
  return { ...held, digest, signedBy };
}

/** Returns the version that a manual rollback restored, if it is known. */
function beforeRollback(
  { previous, beforeBoards }: UpdateState,
  slot: SlotName,
  firmware: FirmwareRecord,
): Installed | undefined {
  if (!hasSlotPayload(firmware)) return beforeBoards;
  return previous?.slot === slot ? previous : undefined;
}

/** Returns the target of the next rollback within this slot, if the last update was of boards alone. */
export function beforeBoardsAfter(
  state: UpdateState,
  firmware: FirmwareRecord,
  isRollback: boolean,
): Installed | undefined {
  return hasSlotPayload(firmware) || isRollback ? undefined : state.installed;
}

function digestOn(target: string, installed: Installed | undefined): string {
  const payload = installed?.payloads.find((found) => found.kind !== 'slots' && found.target === target);
  return payload?.digest ?? NOTHING_OF_OURS;
}

/**
 * Returns the abandoned version if another slot runs than the committed one. It is kept until its boards have followed
 * and it was reported. A trial that is being abandoned ends on its own, and a slot that runs again was not abandoned.
 */
export function abandonedAfter(state: UpdateState, booted: SlotName): UpdateState['fellFrom'] {
  const { phase, installed, fellFrom } = state;
  if (phase.kind === 'rolling-back' && hasSlotPayload(phase.firmware)) return fellFrom;
  if (fellFrom !== undefined) return fellFrom.slot === booted ? undefined : fellFrom;
  return installed;
}

/** The phase of a rollback in which only the boards are to be done. */
export function boardsOnlyRollback(
  state: UpdateState,
  {
    attempt,
    boards,
    stay,
  }: { readonly attempt: PhaseOf<'rolling-back'>['attempt']; readonly boards: Payload[]; readonly stay: string[] },
): StateIn<'rolling-back'> {
  const { fellFrom } = state;
  assert(fellFrom !== undefined, 'no slot was left');
  const { digest, slot = 'A', version } = fellFrom;
  const other = otherSlot(slot);
  const why = `slot ${other} runs again, though ${version.name} was committed in slot ${slot}: the bootloader fell back, or a person chose it`;
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

/** The claims of a signed release. */
export interface ReleaseClaims {
  readonly signedBy?: string | undefined;
  readonly name?: string | undefined;
  readonly securityVersion?: number | undefined;
}

/** The image that a board is to get. */
export interface BoardImage extends ImageClaims {
  readonly target: string;
  readonly kind: 'slots' | 'mcu' | 'package';
}

/** The highest values that were committed on each board, by its name. */
export interface BoardFloors {
  readonly boardFloors?: Readonly<Record<string, number>> | undefined;
  readonly boardVersions?: Readonly<Record<string, string>> | undefined;
}

/** Guarantee `floors`: the floor after a release was committed. It never falls, and only signed releases raise it. */
export function raiseFloor(floor: Floor | undefined, release: ReleaseClaims): Floor | undefined {
  if (release.signedBy === undefined) return floor;
  const { name, securityVersion } = release;
  const numbers = [floor?.securityVersion, securityVersion].filter((number) => number !== undefined);
  const names = [floor?.name, name].filter((text) => text !== undefined && isSemanticName(text));
  const [first, second = first] = names;
  const highest =
    first === undefined || second === undefined || compareSemanticNames(first, second) >= 0 ? first : second;
  return { securityVersion: numbers.length === 0 ? undefined : Math.max(...numbers), name: highest };
}

/** Like `raiseFloor`, for each board. */
export function raiseBoardFloors(
  { boardFloors, boardVersions }: BoardFloors,
  { signedBy, payloads }: Pick<ReleaseClaims, 'signedBy'> & { readonly payloads: readonly BoardImage[] },
): BoardFloors {
  const [counters, versions] = [{ ...boardFloors }, { ...boardVersions }];
  for (const { target, kind, securityCounter, imageVersion } of signedBy === undefined ? [] : payloads) {
    if (kind !== 'mcu') continue;
    if (securityCounter !== undefined) counters[target] = Math.max(securityCounter, counters[target] ?? 0);
    if (imageVersion !== undefined && compareSemanticNames(imageVersion, versions[target] ?? '') > 0)
      versions[target] = imageVersion;
  }
  return { boardFloors: filled(counters), boardVersions: filled(versions) };
}

function filled<T extends object>(record: T): T | undefined {
  return Object.keys(record).length === 0 ? undefined : record;
}
