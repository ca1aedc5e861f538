import type { AgentError } from '../../system/errors.ts';
import type { Log } from '../../system/log/log.ts';
import type { Clock } from '../../system/time/clock.ts';
import type { ConsentHook } from '../hooks/hooks.ts';
import type { Journal } from '../journal/journal.ts';
import type { Attempt, FirmwareRecord, PendingHook, VersionRef } from '../journal/state.ts';
import type { AppliedList, Deferral } from '../outcome.ts';
import type { Bootloader, FirmwareSource, Machine, Target } from '../ports.ts';
import type { OpenFirmware, UpdateProgress } from '../ports/incoming.ts';
import type { HealthGate } from '../trial/health.ts';
import type { ReleaseSettings } from './release-rules.ts';

/** One firmware to install, wherever it comes from. */
export interface InstallRequest {
  readonly version: VersionRef;
  readonly by: Exclude<Attempt['by'], 'rollback'>;
  readonly source: FirmwareSource;
  /** false: stop before the reboot. */
  readonly reboot: boolean;
  /** A person lifted the quarantine, this once. */
  readonly force: boolean;
  /** A person waits for it, not the schedule. */
  readonly manual?: boolean | undefined;
  /** Root lifted the floor, this once. */
  readonly allowDowngrade?: boolean | undefined;
  /** The digest of the only release for which root lifted the floor, this once. */
  readonly downgradeTo?: string | undefined;
  /**
   * Its header was that of a list of keys and revocations, for which nobody's consent is needed. It is refused if it
   * turns out to be anything else.
   */
  readonly isList?: boolean | undefined;
}

export interface UpdatePorts {
  readonly journal: Journal;
  readonly bootloader: Bootloader;
  readonly targets: ReadonlyMap<string, Target>;
  readonly openFirmware: OpenFirmware;
  readonly health: HealthGate;
  readonly machine: Machine;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Log;
  /** Why a firmware that was accepted before would not be now, worded to follow its name; undefined: it would. */
  readonly distrusted?: ((firmware: StagedBefore, signal: AbortSignal) => Promise<string | undefined>) | undefined;
  /** Why a signed list of revocations forbids a firmware that runs, or ran, worded to follow its name. */
  readonly revoked?: ((firmware: StagedBefore) => Promise<string | undefined>) | undefined;
  /** The version that the running image states; undefined: it states none. */
  readonly imageVersion: () => Promise<string | undefined>;
  /**
   * True if the configuration states that version, which both slots may share: it is true only of what the factory
   * installed.
   */
  readonly isVersionConfigured?: boolean;
  readonly newAttemptId: () => string;
  /** Called with the reason why a firmware was not staged. */
  readonly onRefused?: ((error: AgentError) => Promise<void>) | undefined;
  readonly onProgress: (event: UpdateProgress) => void;
  readonly settings: UpdateSettings;
  /** Why an interrupted update has to wait before it resumes. Absent: nothing defers it. */
  readonly deferResume?: (() => Deferral | undefined) | undefined;
  /** Why the reboot into staged firmware has to wait. Absent: nothing defers it. */
  readonly deferReboot?: (() => Deferral | undefined) | undefined;
  /** The number of the list of keys and revocations; undefined, or absent: there is none that can be read. */
  readonly listInEffect?: (() => Promise<number | undefined>) | undefined;
  /** Returns the changes of the trust list that was applied since the last call. */
  readonly appliedList?: (() => AppliedList | undefined) | undefined;
  /** False: the clock was not set since the start, and may be years late. Absent: it was set. */
  readonly isClockSet?: ((signal: AbortSignal) => Promise<boolean>) | undefined;
  /** The metered interface that is the way to the service now; undefined, or absent: there is none. */
  readonly meteredLink?: (() => Promise<string | undefined>) | undefined;
  /** Why the next start of the agent would refuse its configuration; undefined, or absent: it would not. */
  readonly configTrouble?: (() => Promise<string | undefined>) | undefined;
  /** Asks for consent. Absent: nobody is asked. */
  readonly askHook?: ConsentHook | undefined;
  /** Whether this program of the gateway wants to be told. Absent: none does. */
  readonly wantsHook?: ((hook: PendingHook['hook']) => boolean) | undefined;
  /** The person who asked makes the reboot later: the agent stops before it. */
  readonly rebootByHand?: boolean | undefined;
}

export type StagedBefore = Pick<FirmwareRecord, 'digest' | 'signedBy'>;

export interface UpdateSettings {
  /** The target of a raw image; undefined: there is none. */
  readonly defaultTarget: string | undefined;
  /** The target of a root file system: the pair of slots that boots. */
  readonly bootingTarget: string | undefined;
  /** How often a staged slot is booted on trial before it is given up, at least once. */
  readonly trials: number;
  /** How often one version may fail before it is held back, at least once. */
  readonly attempts: number;
  /** The time after which a failed firmware may be tried again. */
  readonly quarantineMs?: number | undefined;
  readonly release: ReleaseSettings;
}

export function isoTime(clock: Clock): string {
  return new Date(clock.nowMs()).toISOString();
}
