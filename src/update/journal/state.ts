import * as z from 'zod';

import type { SlotName } from '../ports.ts';
import type { attempt, versionRef } from './parts/attempt.ts';
import type { firmwareRecord } from './parts/firmware-record.ts';
import { floors } from './parts/floors.ts';
import { installed } from './parts/installed.ts';
import { outcome } from './parts/outcome.ts';
import { owedHook } from './parts/owed-hook.ts';
import { phase } from './parts/phase.ts';
import { unfitDeltas } from './parts/rejected-deltas.ts';
import { slotKnowledge } from './parts/slot-record.ts';
import type { partitionRecord } from './parts/slot-record.ts';
import { standstill } from './parts/standstill.ts';
import { versionEntry, waiting } from './parts/versions.ts';

/**
 * Invariant 4: everything that the update room remembers, in one record that is replaced as a whole. Times: ISO 8601.
 */
export const storedState = z.object({
  format: z.literal(1),
  phase,
  installed: installed.optional(),
  /** What was known of updates was lost once, so that anything may be running. */
  forgot: z.boolean().optional(),
  /** What the other slot holds, as long as it may boot. */
  previous: installed.optional(),
  /** What was installed in the same slot before boards alone were updated: a rollback goes there first. */
  beforeBoards: installed.optional(),
  /** A committed version that the bootloader has left: its boards have not followed, and the service was not told. */
  fellFrom: installed.optional(),
  /** What was tried, by digest, so that the same content under a new id keeps its history; the last one at the end. */
  versions: z.array(versionEntry).default([]),
  /** The digests of what the service had installed lately, oldest first. Versions that take turns wait longer each time. */
  turns: z.object({ installed: z.array(z.string()), ...waiting }).optional(),
  /** What the service named at the last look: the id of a version, or nothing. */
  named: z.object({ id: z.string().optional() }).optional(),
  /** A hold by a person. */
  standstill: standstill.optional(),
  owedHook: owedHook.optional(),
  /** The id of the version of which the service does not know yet that it runs. */
  pendingSwitch: z.string().optional(),
  /** Outcomes that the service has not accepted yet, oldest first. */
  reports: z.array(outcome),
  lastOutcome: outcome.optional(),
  ...floors,
  /** The id of the version under which a list was last taken. It counts where nothing is known to be installed. */
  listVersion: z.string().optional(),
  unfit: unfitDeltas.optional(),
  slots: z.object({ A: slotKnowledge, B: slotKnowledge }).optional(),
});

/** A journal from before slots were remembered says the same in other words. */
export const updateState = storedState.transform(({ slots, ...parts }) => ({
  ...parts,
  slots: slots ?? knowledgeFrom(parts),
}));

export type UpdateState = z.infer<typeof updateState>;
export type Phase = UpdateState['phase'];
export type PhaseOf<K extends Phase['kind']> = Extract<Phase, { kind: K }>;
export type StateIn<K extends Phase['kind']> = UpdateState & { readonly phase: PhaseOf<K> };
export type Attempt = z.infer<typeof attempt>;
export type FirmwareRecord = z.infer<typeof firmwareRecord>;
export type Installed = z.infer<typeof installed>;
export type Outcome = z.infer<typeof outcome>;
export type VersionEntry = z.infer<typeof versionEntry>;
export type VersionRef = z.infer<typeof versionRef>;
export type PartitionRecord = z.infer<typeof partitionRecord>;
export type SlotKnowledge = z.infer<typeof slotKnowledge>;
export type SlotsKnowledge = Readonly<Record<SlotName, SlotKnowledge>>;

/** Whether the update has a payload for a slot. One without goes the same way, but without the reboot. */
export function hasSlotPayload(firmware: FirmwareRecord): boolean {
  return firmware.payloads.some((payload) => payload.kind === 'slots');
}

/** Whether a trial, which may have been cut since, has begun to write a board or a package. */
export function hasTouchedBoards(phase: PhaseOf<'staged' | 'trial'>): boolean {
  return phase.kind === 'trial' && Object.keys(phase.boards).length > 0;
}

const nothingKnown: SlotsKnowledge = { A: { records: {} }, B: { records: {} } };

export const initialState: UpdateState = {
  format: 1,
  phase: { kind: 'idle' },
  versions: [],
  reports: [],
  slots: nothingKnown,
};

/** An older journal. */
type WithoutSlots = Omit<z.infer<typeof storedState>, 'slots'>;

/** The knowledge about slots in an older journal: what was staged was verified, and what was committed also ran. */
function knowledgeFrom({ installed: runs, previous, phase: now }: WithoutSlots): SlotsKnowledge {
  const knowledge = { ...nothingKnown };
  if ('firmware' in now) {
    const { firmware: staged, attempt: begun, slot } = now;
    knowledge[slot] = { records: recordsOf(staged, { version: begun.version, at: begun.startedAt }) };
  }
  for (const known of [previous, runs]) {
    if (known?.slot !== undefined) knowledge[known.slot] = { records: recordsOf(known, known), seen: { at: known.at } };
  }
  return knowledge;
}

/** The records of the partitions that a firmware was verified to fill, by target. */
export function recordsOf(
  { payloads, signedBy }: FirmwareRecord,
  { version, at }: Pick<Installed, 'version' | 'at'>,
): Record<string, PartitionRecord> {
  const partitions = payloads.filter(({ kind, sizeBytes }) => kind === 'slots' && sizeBytes > 0);
  return Object.fromEntries(
    partitions.map(({ target, digest, sizeBytes }) => [
      target,
      { digest, sizeBytes, version: version.name, signedBy, at },
    ]),
  );
}
