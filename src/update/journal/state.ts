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
import type { Firmware } from './versions.ts';

/** Invariant 4: everything that the update room remembers, in one record that is replaced as a whole. */
export const updateState = z.object({
  format: z.literal(1),
  phase,
  installed: installed.optional(),
  /** The knowledge of updates was lost once, so any version may be running. */
  forgot: z.boolean().optional(),
  /**
   * The versions that a rollback restores, the next one first: the one in this slot before boards alone were updated,
   * and the one in the other slot, as long as it may boot.
   */
  earlier: z.array(installed),
  /** A committed version that the bootloader abandoned: its boards have not followed, and no report was made. */
  fellFrom: installed.optional(),
  /** The tried releases, by digest, so that the same content under a new ID keeps its history; the last one at the end. */
  versions: z.array(versionEntry),
  /** The digests of the service's last versions, oldest first. Versions that replace each other wait longer each time. */
  turns: z.object({ installed: z.array(z.string()), ...waiting }).optional(),
  /** The offer of the service at the last check: the ID of a version, or none. */
  named: z.object({ id: z.string().optional() }).optional(),
  standstill: standstill.optional(),
  owedHook: owedHook.optional(),
  /** The ID of the running version, if it was not reported to the service yet. */
  pendingSwitch: z.string().optional(),
  /** Outcomes that the service has not accepted yet, oldest first. */
  reports: z.array(outcome),
  lastOutcome: outcome.optional(),
  ...floors.shape,
  /** The ID of the version of the last trust list. It counts if the installed version is unknown. */
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
export type Floors = Pick<UpdateState, 'floor' | 'boardFloors'>;
export type Floor = NonNullable<UpdateState['floor']>;
export type SlotKnowledge = UpdateState['slots']['A'];
export type PartitionRecord = SlotKnowledge['records'][string];

/**
 * The space that a staging needs for its checkpoints, with the head of an artifact, history and outbox. Without it, each
 * check would start the transfer again, until the disk is full.
 */
export const STAGING_ROOM_BYTES = 256 * 1024;

/** Returns the hold, or undefined if it has ended. Without a clock it does not end on its own. */
export function activeHold(held: ManualHold | undefined, nowMs = Number.NaN): ManualHold | undefined {
  if (held?.until === undefined) return held;
  return isPlausible(nowMs) && nowMs >= Date.parse(held.until) ? undefined : held;
}

/** True if the journal was lost, so that results and blocked versions are unknown until a version is installed. */
export function isForgotten({ forgot, installed }: UpdateState): boolean {
  return forgot === true && installed === undefined;
}

/** True if the update has a payload for a slot. Without one, the trial runs without a reboot. */
export function hasSlotPayload(firmware: FirmwareRecord): boolean {
  return firmware.payloads.some((payload) => payload.kind === 'slots');
}

/** True if boards alone were updated last, so that a rollback restores them and keeps the slot. */
export function isAfterBoards({ installed, earlier: [target] }: Pick<UpdateState, 'installed' | 'earlier'>): boolean {
  return target !== undefined && target.slot === installed?.slot;
}

/** True if a trial, which may have been interrupted since, started to write a board or a package. */
export function hasTouchedBoards(phase: PhaseOf<'staged' | 'trial'>): boolean {
  return phase.kind === 'trial' && Object.keys(phase.boards).length > 0;
}

export const initialState: UpdateState = {
  format: 1,
  phase: { kind: 'idle' },
  earlier: [],
  versions: [],
  reports: [],
  slots: { A: { records: {} }, B: { records: {} } },
};

/** The cause of the end of a trial: the release, the environment of the gateway, or an operator. */
export type Cause = 'firmware' | 'world' | 'person';

/** The end of a trial and its cause. A release that caused it is not retried automatically. */
export interface TrialFailure {
  readonly code: string;
  readonly reason: string;
  readonly fault: Cause;
}

interface Costs {
  /** The figures of the whole attempt, if they changed. */
  readonly figures?: Figures | undefined;
}

/**
 * Invariant 4: everything that can happen to an update. Each event is one durable write. An event that the phase does
 * not allow is a defect, and asserts.
 */
interface EventData {
  /** The state directory is from another gateway, so its attempts and reports belong to that gateway. */
  readonly 'identity-changed': object;
  readonly 'staging-started': { readonly attempt: Attempt; readonly slot: SlotName; readonly at: string };
  /** The header was read, and its digest is new. `forced`, `manual`: what an operator orders now, which alone applies. */
  readonly identified: { readonly digest: string } & Pick<Attempt, 'forced' | 'manual'>;
  /** A version has the name of a trust list, but is a release, or could not be read. */
  readonly 'list-rejected': { readonly version: VersionRef; readonly at: string };
  /** Omitted to discard the previous checkpoint. */
  readonly checkpointed: { readonly checkpoint: Checkpoint | undefined } & Costs;
  /** The staging resumes at the next check; the attempt has not ended. */
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
    /** The reason why the release is below the minimum, if root permitted that. */
    readonly downgrade?: string | undefined;
    /** The verified content of the partitions of the slot, by target. */
    readonly records: Readonly<Record<string, PartitionRecord>>;
  };
  readonly 'rollback-staged': {
    readonly attempt: Attempt;
    /** The slot to be tried; for boards alone, the running one. */
    readonly slot: SlotName;
    /** The known content of the slot, and the tasks of the boards. */
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
  /** The trial is healthy, or an operator commits it. */
  readonly approved: object;
  /** `slot`: the running one. `owesHook`: a notification hook has to run. */
  readonly committed: { readonly at: string; readonly slot: SlotName; readonly owesHook?: boolean };
  /** The next step may change the board. */
  readonly 'board-write-started': { readonly target: string };
  readonly 'board-flashed': { readonly target: string };
  readonly 'rollback-started': TrialFailure;
  /** The boards that were touched are to get back what they held. */
  readonly restoring: object;
  readonly 'board-restored': { readonly target: string };
  readonly 'rolled-back': TrialFailure & { readonly at: string; readonly owesHook?: boolean };
  /** A notification hook received the result of this attempt. */
  readonly 'hook-notified': { readonly attemptId: string };
  /** `name`: the signed name of a file, if it was verified. */
  readonly failed: {
    readonly at: string;
    readonly failure: AttemptFailure;
    readonly name?: string | undefined;
  } & Costs;
  /** A paused staging is no longer wanted. */
  readonly withdrawn: { readonly at: string; readonly code: string; readonly reason: string };
  /** An operator ended the staging: the agent does not start this version again automatically. */
  readonly cancelled: { readonly at: string };
  /** The slot of the installed version does not run: an operator or the bootloader chose the other one. */
  readonly 'slots-swapped': { readonly booted: SlotName };
  /** The wanted firmware already runs, perhaps under another name. */
  readonly 'found-installed': { readonly at: string } & Costs;
  /** `name`: the name that the list has of itself. */
  readonly 'trust-list-applied': {
    readonly name: string;
    /** Omitted if the number is unknown. */
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
  /** Partitions of the slot were read, and differ from their records. */
  readonly 'records-invalidated': { readonly slot: SlotName; readonly targets: readonly string[] };
  readonly 'factory-version': { readonly installed: Installed };
  readonly recovered: { readonly at: string };
  readonly switched: { readonly versionId: string };
  /** The service has another current version, so the running one is reported again. */
  readonly 'record-differs': { readonly versionId: string };
  readonly reconciled: { readonly versionId: string; readonly switchTo: boolean };
  /** The service's version of this name is not the one that an operator installed. */
  readonly 'name-disambiguated': { readonly versionId: string };
  /** The service names another version than before, or none. */
  readonly 'offer-changed': { readonly versionId: string | undefined };
  /** A deferred version has waited for one more check. */
  readonly 'check-deferred': object;
  /** The clock was set: earlier deferrals count from now on. */
  readonly 'quarantine-started': { readonly at: string };
  /** An operator starts a hold. */
  readonly 'hold-started': { readonly standstill: ManualHold };
  readonly 'hold-released': object;
  readonly unblocked: { readonly release: Firmware };
  readonly reported: { readonly attemptId: string };
  /** The service received the versions whose full image is wanted. */
  readonly 'full-image-requested': object;
}

export type EventType = keyof EventData;
export type EventOf<T extends EventType> = { readonly [K in T]: { readonly type: K } & EventData[K] }[T];
export type UpdateEvent = EventOf<EventType>;

export interface AttemptFailure {
  readonly outcome: 'failed' | 'refused';
  readonly code: string;
  readonly reason: string;
  /** The failure may be temporary, so it does not count against the attempts of the version. */
  readonly curable?: boolean;
}
