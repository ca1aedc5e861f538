import assert from 'node:assert';

import { hasSlotPayload } from '../journal/state.ts';
import type { Attempt, FirmwareRecord, Installed, PhaseOf, UpdateState } from '../journal/state.ts';
import type { SlotName } from '../ports.ts';

type Payload = FirmwareRecord['payloads'][number];

/** Stands for a digest where the board did not hold anything that an update flashed. */
const NOTHING_OF_OURS = 'none';

/**
 * What is installed after an update. If it was of boards alone, the slot and the other boards still hold what they
 * held. Each board's payload notes over which one it was flashed, since restoring the board brings back exactly that
 * one.
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

/**
 * Whether restoring the board from its present payload brings back the earlier one. Older journals do not say, and
 * count as yes.
 */
export function restoresTo(now: Payload, then: Payload | undefined): boolean {
  return now.over === undefined || now.over === (then?.digest ?? NOTHING_OF_OURS);
}

/**
 * What is installed after a commit: what the update brought or a rollback brought back, with everything that stayed.
 */
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

/**
 * The staged rollback of an update of boards alone: the running slot stays, and the boards go back to what they held
 * before.
 */
export function stageBoardsBack(
  { phase, beforeBoards }: UpdateState,
  { attempt, slot, boards }: { readonly attempt: Attempt; readonly slot: SlotName; readonly boards: Payload[] },
): PhaseOf<'staged'> {
  assert(phase.kind === 'idle' && beforeBoards !== undefined, 'boards alone were not updated');
  const { digest, signedBy, provides } = beforeBoards;
  return { kind: 'staged', attempt, slot, firmware: { digest, signedBy, provides, payloads: boards }, trialsLeft: 1 };
}

/** What a rollback by a person brought back; undefined: that is not known. */
function beforeRollback(
  { previous, beforeBoards }: UpdateState,
  slot: SlotName,
  firmware: FirmwareRecord,
): Installed | undefined {
  if (!hasSlotPayload(firmware)) return beforeBoards;
  return previous?.slot === slot ? previous : undefined;
}

/**
 * What the next rollback goes back to without changing the slot; undefined after another slot, or that state itself,
 * was installed.
 */
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
