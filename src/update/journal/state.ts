import * as z from 'zod';

import type { SlotName } from '../ports.ts';
import { artifactCheckpoint, checkpoint, digestedPart } from './parts/checkpoint-record.ts';
import { figures } from './parts/figures.ts';
import { floors } from './parts/floors.ts';
import { owedHook } from './parts/owed-hook.ts';
import { standstill } from './parts/standstill.ts';
import { unfitDeltas } from './parts/unfit-deltas.ts';

/**
 * Invariant 4: everything that the update room remembers, in one record that is replaced as a whole. Times: ISO 8601.
 */
const slotName = z.enum(['A', 'B']);

const versionRef = z.object({
  /** Undefined: from a local file, so the service has no name for it. */
  id: z.string().optional(),
  name: z.string(),
});

export const attempt = z.object({
  /** Unique; names the attempt in reports. */
  id: z.string(),
  version: versionRef,
  by: z.enum(['service', 'file', 'rollback']),
  startedAt: z.string(),
  /** With a rollback: partitions that could not be verified before they were booted again, and why. */
  unverified: z.array(z.string()).optional(),
  /** A person said that nothing may hold this attempt back. */
  forced: z.boolean().optional(),
  /** A person wants to reboot by hand. */
  rebootByHand: z.boolean().optional(),
  /** A person asked for what the service names. */
  byPerson: z.boolean().optional(),
  figures: figures.optional(),
  /** Why the release is below the floor, if root allowed that. */
  downgrade: z.string().optional(),
});

const firmware = z.object({
  digest: z.string(),
  signedBy: z.string().optional(),
  /** The name of the release itself. */
  name: z.string().optional(),
  /** The `security_version` that the release itself provides. */
  securityVersion: z.number().optional(),
  provides: z.record(z.string(), z.string()),
  /** What the slots and the kept files hold, by target: enough to verify them again by reading. */
  payloads: z.array(
    digestedPart.extend({
      target: z.string(),
      kind: z.enum(['slots', 'mcu', 'package']).default('slots'),
      order: z.number().optional(),
      securityCounter: z.number().optional(),
      imageVersion: z.string().optional(),
      /** In a rollback by a person: the board gets back what it held before this payload. */
      back: z.boolean().optional(),
      /** Of an installed payload: the digest of the one that the board had before; `none`: no update had brought it one. */
      over: z.string().optional(),
    }),
  ),
});

/** The state of the boards of an update, by target. A board that is not named is untouched. */
const boards = z.record(z.string(), z.enum(['touched', 'flashed'])).default({});

const phase = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('idle') }),
  /** The phase could not be understood: it is damaged, or of a newer agent, for which `was` keeps it as found. */
  z.object({ kind: z.literal('lost'), was: z.unknown().optional(), interrupted: attempt.optional() }),
  /** Nothing that boots has changed. From its first byte on, the slot is unbootable. */
  z.object({
    kind: z.literal('staging'),
    attempt,
    slot: slotName,
    checkpoint: checkpoint.optional(),
    artifactCheckpoint: artifactCheckpoint.optional(),
  }),
  /** The slot is written, read back and verified; it may already be armed. */
  z.object({ kind: z.literal('staged'), attempt, slot: slotName, firmware, trialsLeft: z.number() }),
  /** The slot is armed; `bootId` is the boot in which that happened. */
  z.object({
    kind: z.literal('trial'),
    attempt,
    slot: slotName,
    firmware,
    trialsLeft: z.number(),
    bootId: z.string(),
    /** A person wants to reboot by hand. */
    rebootByHand: z.boolean(),
    judgements: z.number(),
    /** The trial was found healthy, or is kept by a person: only the commit is missing. */
    approved: z.boolean().default(false),
    boards,
    /** False: this agent has not asked for the reboot into the trial, so another reboot may have come first. */
    rebootAsked: z.boolean().optional(),
  }),
  z.object({
    kind: z.literal('rolling-back'),
    attempt,
    slot: slotName,
    firmware,
    code: z.string(),
    reason: z.string(),
    fault: z.enum(['firmware', 'world', 'person']).default('firmware'),
    /** The boards that must get back what they held. */
    boards,
    /** How often the restoring was begun. */
    restores: z.number().default(0),
  }),
]);

const knownInstalled = firmware.extend({
  version: versionRef,
  slot: slotName.optional(),
  at: z.string(),
  /** No agent has installed it: the version is the image's own word, and nothing of it was verified. */
  factory: z.boolean().optional(),
  /** A person installed it while the service named this version: it stays until the service names another one. */
  overrides: z.string().optional(),
  /** A person installed it, and what the service named then is not known yet: the next look will tell. */
  byHand: z.boolean().optional(),
  /** A version of the service that has the same name, but is another one. */
  namesake: z.string().optional(),
  /** A list of keys was taken later: the service knows the firmware by the list's id, and knew it by `ownId` before. */
  underList: z.object({ id: z.string(), name: z.string(), ownId: z.string().optional() }).optional(),
});

/** A newer agent may add members to these records; they are kept, though their meaning is unknown. */
const installed: z.ZodType<z.infer<typeof knownInstalled>> = knownInstalled.loose();

const knownOutcome = z.object({
  attempt: z.string(),
  version: z.string(),
  outcome: z.enum(['installed', 'failed', 'refused', 'rolled-back']),
  code: z.string(),
  reason: z.string(),
  at: z.string(),
  /** So many earlier attempts ended the same way, and are not reported separately. */
  repeats: z.number().optional(),
  /** So many earlier ends were dropped, because the service was away for too long. */
  dropped: z.number().optional(),
  by: z.enum(['service', 'file', 'rollback']).optional(),
  /** The number of the list of keys and revocations that took effect. */
  list: z.number().optional(),
});

const outcome: z.ZodType<z.infer<typeof knownOutcome>> = knownOutcome.loose();

const knownQuarantined = z.object({
  /** Undefined: it was refused before its digest was known. */
  digest: z.string().optional(),
  version: versionRef,
  code: z.string(),
  reason: z.string(),
  at: z.string(),
});

const quarantined: z.ZodType<z.infer<typeof knownQuarantined>> = knownQuarantined.loose();

/** Since when something waits, and for how many looks at the service already. */
const waiting = { since: z.string().optional(), looks: z.number().optional() };

const knownTries = z.object({
  versionId: z.string(),
  begun: z.number(),
  failed: z.number(),
  gaveUp: z.number(),
  ...waiting,
});
const tries: z.ZodType<z.infer<typeof knownTries>> = knownTries.loose();

/** Invariant 2: what a partition was last verified to hold. Gone, durably, before its first byte is written. */
const knownPartitionRecord = digestedPart.extend({
  /** The name of the version. */
  version: z.string(),
  signedBy: z.string().optional(),
  /** Nothing writes to the image while it runs: if it reads differently, somebody has tampered with it. */
  readOnly: z.boolean().optional(),
  at: z.string(),
});

const partitionRecord: z.ZodType<z.infer<typeof knownPartitionRecord>> = knownPartitionRecord.loose();

const slotKnowledge = z.object({
  /** What each partition of the slot holds, by the name of its target. */
  records: z.record(z.string(), partitionRecord),
  /** The slot was seen to run with what it holds now. This is removed with the first record. */
  seen: z.object({ at: z.string() }).optional(),
});

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
  quarantine: z.array(quarantined),
  /** How often the last version was begun, failed, and failed in a way that waiting cannot cure. */
  tries: tries.optional(),
  /** The same for the versions tried before it, the last one at the end. Removed by an update that ended well. */
  otherTries: z.array(tries).optional(),
  /** What the service had installed lately, oldest first. Versions that take turns wait longer each time. */
  turns: z.object({ installed: z.array(z.string()), ...waiting }).optional(),
  /** What the service named at the last look: the id of a version, or nothing. */
  named: z.object({ id: z.string().optional() }).optional(),
  /** The id of the version whose staging a person ended: it is begun again only when a person asks for it. */
  cancelled: z.string().optional(),
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
export type FirmwareRecord = z.infer<typeof firmware>;
export type Installed = z.infer<typeof installed>;
export type Outcome = z.infer<typeof outcome>;
export type Quarantined = z.infer<typeof quarantined>;
export type VersionRef = z.infer<typeof versionRef>;
export type PartitionRecord = z.infer<typeof partitionRecord>;
export type SlotKnowledge = z.infer<typeof slotKnowledge>;
export type SlotsKnowledge = Readonly<Record<SlotName, SlotKnowledge>>;

/** Whether the update has a payload for a slot. One without goes the same way, but without the reboot. */
export function hasSlotPayload(firmware: FirmwareRecord): boolean {
  return firmware.payloads.some((payload) => payload.kind === 'slots');
}

const nothingKnown: SlotsKnowledge = { A: { records: {} }, B: { records: {} } };

export const initialState: UpdateState = {
  format: 1,
  phase: { kind: 'idle' },
  quarantine: [],
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
