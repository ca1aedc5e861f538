import type { AgentError } from '../../system/errors.ts';
import type { Log } from '../../system/log/log.ts';
import type { Clock } from '../../system/time/clock.ts';
import type { AskHook } from '../hooks/hooks.ts';
import type { Journal } from '../journal/journal.ts';
import type { OwedHook } from '../journal/parts/owed-hook.ts';
import type { Attempt, FirmwareRecord, VersionRef } from '../journal/state.ts';
import type { Bootloader, FirmwareSource, Machine, Target } from '../ports.ts';
import type { OpenFirmware } from '../ports/incoming.ts';
import type { UpdateProgress } from '../progress.ts';
import type { HealthGate } from '../trial/health-gate.ts';
import type { Hold } from './plan.ts';
import type { ReleaseSettings } from './release-rules.ts';

/** One firmware to install, from wherever it comes. */
export interface InstallOrder {
  readonly version: VersionRef;
  readonly by: Exclude<Attempt['by'], 'rollback'>;
  readonly source: FirmwareSource;
  /** false: stop before the reboot. */
  readonly reboot: boolean;
  /** A person lifted the quarantine for this once. */
  readonly force: boolean;
  /** A person waits for it, not the schedule. */
  readonly byPerson?: boolean | undefined;
  /** Root lifted the floor for this once. */
  readonly allowDowngrade?: boolean | undefined;
  /** Its header was that of a list of keys and revocations, which asks for nobody's consent. It is refused if it turns out to be another thing. */
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
  /** By digest; undefined, or not given: nobody revokes any. */
  readonly revokedReleases?: (() => Promise<ReadonlySet<string> | undefined>) | undefined;
  /** Why a firmware that was accepted before would not be now, in words that follow its name; undefined: it would. */
  readonly distrusted?: ((firmware: StagedBefore, signal: AbortSignal) => Promise<string | undefined>) | undefined;
  /** Why a signed list of revocations forbids a firmware that runs already, in words that follow its name. */
  readonly revoked?: ((firmware: StagedBefore) => Promise<string | undefined>) | undefined;
  /** What the image that runs calls itself; undefined: it does not say. */
  readonly imageVersion: () => Promise<string | undefined>;
  /** It is the configuration that says so, which both slots may share: true of what the factory installed alone. */
  readonly isVersionConfigured?: boolean;
  readonly newAttemptId: () => string;
  /** Told why a firmware was not staged. */
  readonly onRefused?: ((error: AgentError) => Promise<void>) | undefined;
  readonly onProgress: (event: UpdateProgress) => void;
  readonly settings: UpdateSettings;
  /** Why an update that was interrupted has to wait before it goes on; nothing holds it, if not given. */
  readonly hold?: (() => Hold | undefined) | undefined;
  /** Why the reboot into what was staged has to wait; nothing holds it, if not given. */
  readonly holdReboot?: (() => Hold | undefined) | undefined;
  /** The number of the list of keys and revocations; undefined, or not given: there is none, or none that can be read. */
  readonly listInEffect?: (() => Promise<number | undefined>) | undefined;
  /** False: what sets the clock has not done so since the start, and it may be years late. Not given: it has. */
  readonly isClockSet?: ((signal: AbortSignal) => Promise<boolean>) | undefined;
  /** The interface through which downloads cost, if that is the way to the service now; undefined, or not given: they cost nothing. */
  readonly meteredLink?: (() => Promise<string | undefined>) | undefined;
  /** Whose consent is asked for; nobody's, if not given. */
  readonly askHook?: AskHook | undefined;
  /** Whether this program of the gateway wants to be told; none does, if not given. */
  readonly wantsHook?: ((hook: OwedHook['hook']) => boolean) | undefined;
  /** The person who asked makes the reboot. */
  readonly rebootByHand?: boolean | undefined;
}

export type StagedBefore = Pick<FirmwareRecord, 'digest' | 'signedBy'>;

export interface UpdateSettings {
  /** Where a raw image goes; undefined: nowhere. */
  readonly defaultTarget: string | undefined;
  /** Where a root file system goes: the pair of slots that boots. */
  readonly bootingTarget: string | undefined;
  /** How often a staged slot is booted on trial before it is given up: 1 or more. */
  readonly trials: number;
  /** How often one version may fail before it is held back: 1 or more. */
  readonly attempts: number;
  /** After so long a firmware that ended badly may be tried again. */
  readonly quarantineMs: number;
  readonly release: ReleaseSettings;
}

export function isoTime(clock: Clock): string {
  return new Date(clock.nowMs()).toISOString();
}
