import * as z from 'zod';

import { isPlausible } from '../../system/time/wall-clock.ts';
import type { SlotName } from '../ports.ts';
import {
  floors,
  installed,
  outcome,
  owedHook,
  phase,
  slotKnowledge,
  standstill,
  unfitDeltas,
  versionEntry,
  waiting,
} from './schema.ts';

/** Invariant 4: everything that the update room remembers, in one record that is replaced as a whole. */
export const updateState = z.object({
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
  versions: z.array(versionEntry),
  /** The digests of what the service had installed lately, oldest first. Versions that take turns wait longer each time. */
  turns: z.object({ installed: z.array(z.string()), ...waiting }).optional(),
  /** What the service named at the last look: the id of a version, or nothing. */
  named: z.object({ id: z.string().optional() }).optional(),
  standstill: standstill.optional(),
  owedHook: owedHook.optional(),
  /** The id of the version of which the service does not know yet that it runs. */
  pendingSwitch: z.string().optional(),
  /** Outcomes that the service has not accepted yet, oldest first. */
  reports: z.array(outcome),
  lastOutcome: outcome.optional(),
  ...floors.shape,
  /** The id of the version under which a list was last taken. It counts where nothing is known to be installed. */
  listVersion: z.string().optional(),
  unfit: unfitDeltas.optional(),
  slots: z.object({ A: slotKnowledge, B: slotKnowledge }),
});

export type UpdateState = z.infer<typeof updateState>;
export type Phase = UpdateState['phase'];
export type PhaseOf<K extends Phase['kind']> = Extract<Phase, { kind: K }>;
export type StateIn<K extends Phase['kind']> = UpdateState & { readonly phase: PhaseOf<K> };
export type Attempt = PhaseOf<'staging'>['attempt'];
export type VersionRef = Attempt['version'];
export type Figures = NonNullable<Attempt['figures']>;
export type Checkpoint = NonNullable<PhaseOf<'staging'>['checkpoint']>;
export type ArtifactPlace = NonNullable<Checkpoint['artifact']>;
export type WirePosition = Checkpoint['wire'];
export type WrittenPrefix = Checkpoint['image'];
export type FirmwareRecord = PhaseOf<'staged'>['firmware'];
export type Installed = NonNullable<UpdateState['installed']>;
export type Outcome = UpdateState['reports'][number];
export type VersionEntry = UpdateState['versions'][number];
export type ManualHold = NonNullable<UpdateState['standstill']>;
export type PendingHook = NonNullable<UpdateState['owedHook']>;
export type Floor = NonNullable<UpdateState['floor']>;
export type SlotKnowledge = UpdateState['slots']['A'];
export type SlotsKnowledge = Readonly<Record<SlotName, SlotKnowledge>>;
export type PartitionRecord = SlotKnowledge['records'][string];

/**
 * The room that a staging needs for its checkpoints, with the head of an artifact, history and outbox. Without it, each
 * look would transfer anew up to the point where the room ends.
 */
export const STAGING_ROOM_BYTES = 256 * 1024;

/** Returns the hold, or undefined if it has ended. Without a clock it does not end on its own. */
export function activeHold(held: ManualHold | undefined, nowMs = Number.NaN): ManualHold | undefined {
  if (held?.until === undefined) return held;
  return isPlausible(nowMs) && nowMs >= Date.parse(held.until) ? undefined : held;
}

/** Whether the update has a payload for a slot. One without goes the same way, but without the reboot. */
export function hasSlotPayload(firmware: FirmwareRecord): boolean {
  return firmware.payloads.some((payload) => payload.kind === 'slots');
}

/** Whether a trial, which may have been cut since, has begun to write a board or a package. */
export function hasTouchedBoards(phase: PhaseOf<'staged' | 'trial'>): boolean {
  return phase.kind === 'trial' && Object.keys(phase.boards).length > 0;
}

export const initialState: UpdateState = {
  format: 1,
  phase: { kind: 'idle' },
  versions: [],
  reports: [],
  slots: { A: { records: {} }, B: { records: {} } },
};

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
