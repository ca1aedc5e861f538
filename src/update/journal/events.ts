import type { Checkpoint, SlotName } from '../ports.ts';
import type { Complaint } from '../trial/blame.ts';
import type { Figures } from './parts/figures.ts';
import type { Standstill } from './parts/standstill.ts';
import type { Attempt, FirmwareRecord, Installed, PartitionRecord, StateIn, UpdateState } from './state.ts';

interface Costs {
  /** Of the attempt as a whole; undefined: as before. */
  readonly figures?: Figures | undefined;
}

interface Owing {
  /** A program of the gateway is to be told. */
  readonly owesHook?: boolean;
}

/** What can happen. Each event is one durable write; one that the phase does not allow is a bug and asserts. */
interface EventData {
  readonly 'staging-started': { readonly attempt: Attempt; readonly slot: SlotName; readonly at: string };
  /** Undefined: the one before is of no use. */
  readonly checkpointed: { readonly checkpoint: Checkpoint | undefined } & Costs;
  /** It goes on with the next look; the attempt has not ended. */
  readonly 'staging-paused': { readonly at: string } & Costs;
  /** The next write destroys what this partition of the slot held. */
  readonly 'slot-opened': { readonly target: string };
  /** `name`: what a firmware from a file calls itself. */
  readonly staged: Costs & {
    readonly firmware: FirmwareRecord;
    /** The one to be tried; without a payload for a slot, the one that runs. */
    readonly slot: SlotName;
    readonly trials: number;
    readonly name: string | undefined;
    /** Why the release is below the floor, where root allowed that. */
    readonly downgrade?: string | undefined;
    /** What the slot's partitions were verified to hold, by target. */
    readonly records: Readonly<Record<string, PartitionRecord>>;
  };
  readonly 'rollback-staged': {
    readonly attempt: Attempt;
    readonly slot: SlotName;
    /** What the slot holds, as far as that is known, and what is to be done with boards. */
    readonly firmware: FirmwareRecord;
    readonly trials: number;
  };
  /** Of a rollback that is armed once more: what may have changed since it began. */
  readonly 'found-unverified': { readonly unverified: readonly string[] };
  readonly 'trial-armed': { readonly bootId: string; readonly rebootByHand: boolean };
  /** The reboot into the trial follows. */
  readonly 'reboot-asked': object;
  /** Another reboot came in its place: the trial has not been used up. */
  readonly 'trial-missed': object;
  readonly judging: object;
  /** It is healthy, or a person keeps it: it is to be committed. */
  readonly approved: object;
  /** `slot`: the one that runs. */
  readonly committed: { readonly at: string; readonly slot: SlotName } & Owing;
  /** The next step may change the board. */
  readonly 'board-touched': { readonly target: string };
  readonly 'board-flashed': { readonly target: string };
  readonly 'rollback-started': Complaint;
  /** The boards that were touched are to get back what they held. */
  readonly restoring: object;
  readonly 'board-restored': { readonly target: string };
  readonly 'rolled-back': Complaint & { readonly at: string } & Owing;
  /** A program of the gateway was told how this attempt ended. */
  readonly 'hook-told': { readonly attemptId: string };
  readonly failed: { readonly at: string; readonly failure: AttemptFailure } & Costs;
  /** A paused staging that nobody wants any more. */
  readonly withdrawn: { readonly at: string; readonly code: string; readonly reason: string };
  /** A person ended the staging: the version is not begun again by itself. */
  readonly cancelled: { readonly at: string };
  /** The other slot runs than the one that was installed last: a person, or the bootloader, chose so. */
  readonly 'slots-swapped': { readonly booted: SlotName };
  /** What is to be installed runs already, perhaps under another name. */
  readonly 'found-installed': { readonly at: string } & Costs;
  /** `name`: what the list calls itself. */
  readonly 'list-taken': {
    readonly name: string;
    /** Undefined: it is not known. */
    readonly number?: number | undefined;
    readonly at: string;
  } & Costs;
  /** A committed version was left: its boards follow the slot, those that `stay` cannot. */
  readonly 'slot-left': {
    readonly attempt: Attempt;
    readonly boards: FirmwareRecord['payloads'];
    readonly stay: string[];
    readonly at: string;
  };
  /** Boards alone are to go back; the slot that runs stays. */
  readonly 'boards-back-staged': {
    readonly attempt: Attempt;
    readonly slot: SlotName;
    readonly boards: FirmwareRecord['payloads'];
  };
  /** The slot runs, was committed, and boots. */
  readonly 'slot-seen': { readonly slot: SlotName; readonly at: string };
  /** Partitions of the slot were read, and hold something else than was recorded. */
  readonly 'records-refuted': { readonly slot: SlotName; readonly targets: readonly string[] };
  readonly 'factory-version': { readonly installed: Installed };
  readonly recovered: { readonly at: string };
  readonly switched: { readonly versionId: string };
  readonly reconciled: { readonly versionId: string; readonly switchTo: boolean };
  /** The service's version of that name is another one than what a person installed. */
  readonly 'told-apart': { readonly versionId: string };
  /** The service names another version than before, or none. */
  readonly named: { readonly versionId: string | undefined };
  /** What waits has waited for one more look. */
  readonly 'look-skipped': object;
  /** The clock was set: what was held back before counts from now on. */
  readonly 'quarantine-dated': { readonly at: string };
  /** A person wants nothing to be installed. */
  readonly 'standstill-begun': { readonly standstill: Standstill };
  readonly 'standstill-lifted': object;
  /** By id, name or digest. */
  readonly forgotten: { readonly version: string };
  readonly reported: { readonly attemptId: string };
  /** The service was told which versions are wanted whole. */
  readonly 'whole-wanted': object;
}

export type EventType = keyof EventData;
export type EventOf<T extends EventType> = { readonly [K in T]: { readonly type: K } & EventData[K] }[T];
export type UpdateEvent = EventOf<EventType>;

/** The phase that an event leads to; others leave the phase, or end it. */
interface PhaseAfter {
  readonly 'staging-started': 'staging';
  readonly checkpointed: 'staging';
  readonly 'staging-paused': 'staging';
  readonly 'slot-opened': 'staging';
  readonly staged: 'staged';
  readonly 'rollback-staged': 'staged';
  readonly 'boards-back-staged': 'staged';
  readonly 'trial-missed': 'staged';
  readonly 'trial-armed': 'trial';
  readonly 'reboot-asked': 'trial';
  readonly judging: 'trial';
  readonly approved: 'trial';
  readonly 'board-touched': 'trial';
  readonly 'board-flashed': 'trial';
  readonly 'rollback-started': 'rolling-back';
  readonly 'slot-left': 'rolling-back';
  readonly restoring: 'rolling-back';
  readonly 'board-restored': 'rolling-back';
}

export type StateAfter<T extends EventType> = T extends keyof PhaseAfter ? StateIn<PhaseAfter[T]> : UpdateState;

export interface AttemptFailure {
  readonly outcome: 'failed' | 'refused';
  readonly code: string;
  readonly reason: string;
  /** Waiting may cure it after all: it does not count against the attempts that a version has. */
  readonly curable?: boolean;
}
