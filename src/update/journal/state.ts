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

/** Who is to blame for the end of a trial: the firmware, the world around the gateway, or a person who wanted it. */
export type Cause = 'firmware' | 'world' | 'person';

/**
 * Why a trial ends, and whose fault that is. A firmware at fault is not tried again by itself; after a fault of the
 * world it is.
 */
export interface TrialFailure {
  readonly code: string;
  readonly reason: string;
  readonly fault: Cause;
}

interface Costs {
  /** The figures of the attempt as a whole; undefined: unchanged. */
  readonly figures?: Figures | undefined;
}

interface Owing {
  /** A program of the gateway has to be told. */
  readonly owesHook?: boolean;
}

/**
 * Invariant 4: everything that can happen to an update. Each event is one durable write. An event that the phase does
 * not allow is a defect, and asserts.
 */
interface EventData {
  /** The state directory is another gateway's: what was tried, and what its service was to be told, is not this one's. */
  readonly 'identity-changed': object;
  readonly 'staging-started': { readonly attempt: Attempt; readonly slot: SlotName; readonly at: string };
  /** The header of the attempt was read, and its digest was not known yet. */
  readonly identified: { readonly digest: string };
  /** Undefined: the previous checkpoint is of no use. */
  readonly checkpointed: { readonly checkpoint: Checkpoint | undefined } & Costs;
  /** The staging continues with the next look; the attempt has not ended. */
  readonly 'staging-paused': { readonly at: string } & Costs;
  /** Invariant 2: the next write destroys what this partition of the slot held. */
  readonly 'slot-opened': { readonly target: string };
  /** `name`: the name of the firmware in a file. */
  readonly staged: Costs & {
    readonly firmware: FirmwareRecord;
    /** The slot to be tried; without a payload for a slot, the running one. */
    readonly slot: SlotName;
    readonly trials: number;
    readonly name: string | undefined;
    /** Why the release is below the floor, if root allowed that. */
    readonly downgrade?: string | undefined;
    /** What the partitions of the slot were verified to hold, by target. */
    readonly records: Readonly<Record<string, PartitionRecord>>;
  };
  readonly 'rollback-staged': {
    readonly attempt: Attempt;
    /** The slot to be tried; if boards alone go back, the running one. */
    readonly slot: SlotName;
    /** What the slot holds, as far as that is known, and what to do with the boards. */
    readonly firmware: FirmwareRecord;
    readonly trials: number;
  };
  /** Partitions that could not be verified when a rollback was armed again; they may have changed since it began. */
  readonly 'found-unverified': { readonly unverified: readonly string[] };
  readonly 'trial-armed': { readonly bootId: string; readonly rebootByHand: boolean };
  /** The agent asks for the reboot into the trial next. */
  readonly 'reboot-asked': object;
  /** Another reboot came first, so the trial was not used up. */
  readonly 'trial-missed': object;
  readonly 'health-check-started': object;
  /** The trial is healthy, or a person keeps it: it is to be committed. */
  readonly approved: object;
  /** `slot`: the running one. */
  readonly committed: { readonly at: string; readonly slot: SlotName } & Owing;
  /** The next step may change the board. */
  readonly 'board-write-started': { readonly target: string };
  readonly 'board-flashed': { readonly target: string };
  readonly 'rollback-started': TrialFailure;
  /** The boards that were touched are to get back what they held. */
  readonly restoring: object;
  readonly 'board-restored': { readonly target: string };
  readonly 'rolled-back': TrialFailure & { readonly at: string } & Owing;
  /** A program of the gateway was told how this attempt ended. */
  readonly 'hook-notified': { readonly attemptId: string };
  readonly failed: { readonly at: string; readonly failure: AttemptFailure } & Costs;
  /** A paused staging is not wanted any more. */
  readonly withdrawn: { readonly at: string; readonly code: string; readonly reason: string };
  /** A person ended the staging: the agent does not begin this version again by itself. */
  readonly cancelled: { readonly at: string };
  /** Another slot runs than the one installed last: a person or the bootloader chose it. */
  readonly 'slots-swapped': { readonly booted: SlotName };
  /** The wanted firmware already runs, perhaps under another name. */
  readonly 'found-installed': { readonly at: string } & Costs;
  /** `name`: the name that the list has of itself. */
  readonly 'trust-list-applied': {
    readonly name: string;
    /** Undefined: the number is not known. */
    readonly number?: number | undefined;
    readonly at: string;
  } & Costs;
  /** A committed version was left. Its boards follow the slot, except those in `stay`, which cannot. */
  readonly 'slot-abandoned': {
    readonly attempt: Attempt;
    readonly boards: FirmwareRecord['payloads'];
    readonly stay: string[];
    readonly at: string;
  };
  /** The slot runs, was committed, and boots. */
  readonly 'slot-seen': { readonly slot: SlotName; readonly at: string };
  /** Partitions of the slot were read, and do not hold what was recorded. */
  readonly 'records-invalidated': { readonly slot: SlotName; readonly targets: readonly string[] };
  readonly 'factory-version': { readonly installed: Installed };
  readonly recovered: { readonly at: string };
  readonly switched: { readonly versionId: string };
  /** The service believes that another version runs: it is told once more. */
  readonly 'record-differs': { readonly versionId: string };
  readonly reconciled: { readonly versionId: string; readonly switchTo: boolean };
  /** The service's version of this name is another one than what a person installed. */
  readonly 'name-disambiguated': { readonly versionId: string };
  /** The service names another version than before, or none. */
  readonly 'offer-changed': { readonly versionId: string | undefined };
  /** A firmware that waits has waited for one more look. */
  readonly 'check-deferred': object;
  /** The clock was set: what was held back before counts from now on. */
  readonly 'quarantine-started': { readonly at: string };
  /** A person begins a hold. */
  readonly 'hold-started': { readonly standstill: ManualHold };
  readonly 'hold-released': object;
  /** The id, name or digest of a version. */
  readonly unblocked: { readonly version: string };
  readonly reported: { readonly attemptId: string };
  /** The service was told which versions are wanted whole. */
  readonly 'full-image-requested': object;
}

export type EventType = keyof EventData;
export type EventOf<T extends EventType> = { readonly [K in T]: { readonly type: K } & EventData[K] }[T];
export type UpdateEvent = EventOf<EventType>;

/** The phase that an event leads to. Other events leave the phase as it is, or end it. */
interface PhaseAfter {
  readonly 'staging-started': 'staging';
  readonly identified: 'staging';
  readonly checkpointed: 'staging';
  readonly 'staging-paused': 'staging';
  readonly 'slot-opened': 'staging';
  readonly staged: 'staged';
  readonly 'rollback-staged': 'staged';
  readonly 'trial-missed': 'staged';
  readonly 'trial-armed': 'trial';
  readonly 'reboot-asked': 'trial';
  readonly 'health-check-started': 'trial';
  readonly approved: 'trial';
  readonly 'board-write-started': 'trial';
  readonly 'board-flashed': 'trial';
  readonly 'rollback-started': 'rolling-back';
  readonly 'slot-abandoned': 'rolling-back';
  readonly restoring: 'rolling-back';
  readonly 'board-restored': 'rolling-back';
}

export type StateAfter<T extends EventType> = T extends keyof PhaseAfter ? StateIn<PhaseAfter[T]> : UpdateState;

export interface AttemptFailure {
  readonly outcome: 'failed' | 'refused';
  readonly code: string;
  readonly reason: string;
  /** Waiting may cure the failure, so it does not count against the attempts of the version. */
  readonly curable?: boolean;
}
