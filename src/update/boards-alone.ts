import assert from 'node:assert';

import { hasSlotPayload } from './journal/state.ts';
import type { Attempt, FirmwareRecord, Installed, PhaseOf, UpdateState } from './journal/state.ts';
import type { SlotName } from './ports.ts';

type Payload = FirmwareRecord['payloads'][number];

/** In place of a digest: what the board held was not flashed by an update. */
const NOTHING_OF_OURS = 'none';

/**
 * What is installed after an update: of boards alone, the slot and the other boards hold what they held. Each board's
 * payload says over which one it was flashed: that, and nothing else, is what restoring the board brings back.
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

/** Restoring the board from what it has now brings back what it had then. Older journals do not say. */
export function restoresTo(now: Payload, then: Payload | undefined): boolean {
  return now.over === undefined || now.over === (then?.digest ?? NOTHING_OF_OURS);
}

/** What is committed now: what came with it, or what a rollback came back to, and what stands beside that. */
export function heldAfter(state: UpdateState, { attempt, firmware }: PhaseOf<'trial'>, slot: SlotName): FirmwareRecord {
  const { installed } = state;
  const before = attempt.by === 'rollback' ? beforeRollback(state, slot, firmware) : undefined;
  const held = before ?? installedWith(firmware, installed);
  const { digest, signedBy } = firmware;
  return { ...held, digest, signedBy };
}

/** The slot that runs stays, and boards alone go back to what they held before they were updated alone. */
export function stageBoardsBack(
  { phase, beforeBoards }: UpdateState,
  { attempt, slot, boards }: { readonly attempt: Attempt; readonly slot: SlotName; readonly boards: Payload[] },
): PhaseOf<'staged'> {
  assert(phase.kind === 'idle' && beforeBoards !== undefined, 'boards alone were not updated');
  const { digest, signedBy, provides } = beforeBoards;
  return { kind: 'staged', attempt, slot, firmware: { digest, signedBy, provides, payloads: boards }, trialsLeft: 1 };
}

/** What a rollback by hand came to, where that is known. */
function beforeRollback(
  { previous, beforeBoards }: UpdateState,
  slot: SlotName,
  firmware: FirmwareRecord,
): Installed | undefined {
  if (!hasSlotPayload(firmware)) return beforeBoards;
  return previous?.slot === slot ? previous : undefined;
}

/** What a rollback goes to first, without another slot; undefined once another slot, or that itself, was installed. */
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
