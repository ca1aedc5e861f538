import type { Checkpoint, SlotName } from '../ports.ts';
import type { TrialFailure } from '../trial/failure-cause.ts';
import type {
  Attempt,
  Figures,
  FirmwareRecord,
  Installed,
  ManualHold,
  PartitionRecord,
  StateIn,
  UpdateState,
} from './state.ts';

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
  /** Boards alone are to go back; the running slot stays. */
  readonly 'boards-back-staged': {
    readonly attempt: Attempt;
    readonly slot: SlotName;
    readonly boards: FirmwareRecord['payloads'];
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
  readonly 'boards-back-staged': 'staged';
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
