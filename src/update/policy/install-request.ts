import type { AgentError } from '../../system/errors.ts';
import type { Log } from '../../system/log/log.ts';
import type { Clock } from '../../system/time/clock.ts';
import type { ConsentHook } from '../hooks/hooks.ts';
import type { Journal } from '../journal/journal.ts';
import type { Attempt, FirmwareRecord, PendingHook, VersionRef } from '../journal/state.ts';
import type { AppliedList } from '../outcome.ts';
import type { Bootloader, FirmwareSource, Machine, Target } from '../ports.ts';
import type { OpenFirmware, UpdateProgress } from '../ports/incoming.ts';
import type { HealthGate } from '../trial/health.ts';
import type { DeferStaged } from './may-try.ts';
import type { ReleaseSettings } from './release-rules.ts';

/** One release to install, from the service or from a file. */
export interface InstallRequest {
  readonly version: VersionRef;
  readonly by: Exclude<Attempt['by'], 'rollback'>;
  readonly source: FirmwareSource;
  /** False: stop before the reboot. */
  readonly reboot: boolean;
  /** An operator overrides the quarantine, this once. */
  readonly force: boolean;
  /** An operator waits for it, not the schedule. */
  readonly manual?: boolean | undefined;
  /** Root overrides the minimum security version, this once. */
  readonly allowDowngrade?: boolean | undefined;
  /** It is a trust list by its name or header, so no hook has to consent. If it is anything else, it is rejected. */
  readonly isList?: boolean | undefined;
}

export interface UpdatePorts {
  /** Ends the operation. */
  readonly signal: AbortSignal;
  readonly journal: Journal;
  readonly bootloader: Bootloader;
  readonly targets: ReadonlyMap<string, Target>;
  readonly openFirmware: OpenFirmware;
  readonly health: HealthGate;
  readonly machine: Machine;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Log;
  /** Returns the reason for no longer trusting an accepted release, worded to follow its name. */
  readonly distrusted?: ((firmware: StagedBefore, signal: AbortSignal) => Promise<string | undefined>) | undefined;
  /** Returns the reason for which a trust list revokes a release, worded to follow its name. */
  readonly revoked?: ((firmware: StagedBefore) => Promise<string | undefined>) | undefined;
  /** Returns the version that the running image states, if any. */
  readonly imageVersion: () => Promise<string | undefined>;
  /**
   * True if the configuration states that version, which both slots may share: it is valid only for the factory image.
   */
  readonly isVersionConfigured?: boolean;
  readonly newAttemptId: () => string;
  /** Called with the reason for not staging a release. */
  readonly onRefused?: ((error: AgentError) => Promise<void>) | undefined;
  readonly onProgress: (event: UpdateProgress) => void;
  readonly settings: UpdateSettings;
  /** Returns the reason for not resuming an interrupted update now. */
  readonly deferResume?: DeferStaged | undefined;
  /** Returns the reason for not rebooting into staged firmware now. */
  readonly deferReboot?: DeferStaged | undefined;
  /** Returns the number of the trust list in effect, if there is a readable one. */
  readonly listInEffect?: (() => Promise<number | undefined>) | undefined;
  /** Returns the changes of the trust list that was applied since the last call. */
  readonly appliedList?: (() => AppliedList | undefined) | undefined;
  /** False: the clock was not set since the start, and may be years late. Absent: it was set. */
  readonly isClockSet?: ((signal: AbortSignal) => Promise<boolean>) | undefined;
  /** Returns the metered interface of the connection to the service, if it is metered. */
  readonly meteredLink: () => Promise<string | undefined>;
  /** Returns the reason for which the next start of the agent would reject its configuration, if any. */
  readonly configProblem: () => Promise<string | undefined>;
  /** Runs a consent hook. */
  readonly askHook?: ConsentHook | undefined;
  /** True if this notification hook is configured. */
  readonly wantsHook?: ((hook: PendingHook['hook']) => boolean) | undefined;
  /** The operator reboots later: the agent stops before the reboot. */
  readonly rebootByHand?: boolean | undefined;
}

/** The ports without the members of one operation. */
export type EnginePorts = Omit<UpdatePorts, 'onProgress' | 'signal'>;

export type StagedBefore = Pick<FirmwareRecord, 'digest' | 'signedBy'>;

export interface UpdateSettings {
  /** The target of a raw image, if configured. */
  readonly defaultTarget: string | undefined;
  /** The target of a root file system: the pair of slots that boots. */
  readonly bootingTarget: string | undefined;
  /** The number of trial boots of a staged slot, at least 1. */
  readonly trials: number;
  /** The number of failures before a version is blocked, at least 1. */
  readonly attempts: number;
  /** The time after which a failed firmware may be tried again. */
  readonly quarantineMs?: number | undefined;
  readonly release: ReleaseSettings;
}

export function isoTime(clock: Clock): string {
  return new Date(clock.nowMs()).toISOString();
}
