import type { ExitKind } from '../system/errors.ts';
import type { TelemetryStatus } from '../telemetry/telemetry-status.ts';
import type { LocalPoint } from '../telemetry/telemetry.ts';
import type { SlotName, Version } from '../update/ports.ts';
import type { ProgressPhase, UpdateProgress } from '../update/progress.ts';

/**
 * What a person or a local program can ask of the agent. One interface with two implementations: in this process
 * (daemon/agent.ts) and through the control socket of a running daemon (cli/control-client.ts).
 */
export interface AgentOperations {
  status(signal: AbortSignal): Promise<StatusReport>;
  /** Looks at the service, changes nothing. */
  check(signal: AbortSignal): Promise<CheckReport>;
  updateNow(options: InstallOptions, onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome>;
  /** A decoded artifact or image in a local file, under the same rules. */
  install(path: string, options: InstallOptions, onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome>;
  activate(signal: AbortSignal): Promise<{ readonly serialNumber: string; readonly thingId: string }>;
  /** Keeps a trial without waiting for the health gate. */
  commit(onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome>;
  /** Ends a trial, or goes back to what was installed before. */
  rollback(options: InstallOptions, onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome>;
  /** Ends a download, or a wait for a reboot. What was downloaded is installed again only when a person asks for it. */
  cancel(onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome>;
  reboot(signal: AbortSignal): Promise<void>;
  /** A version that ended badly may be tried again. Returns the names of those that this concerns. */
  forget(version: string, signal: AbortSignal): Promise<readonly string[]>;
  property(propertyId: string, signal: AbortSignal): Promise<unknown>;
  setProperty(propertyId: string, value: unknown, signal: AbortSignal): Promise<void>;
  sendDatapoint(eventId: string, value: unknown, at: string | undefined, signal: AbortSignal): Promise<void>;
  /** All or none; of the daemon: durable or delivered when it resolves. */
  sendDatapoints(points: readonly LocalPoint[], signal: AbortSignal): Promise<void>;
  /** Sensors, spool and delivery. Throws `spool-elsewhere` where no daemon runs. */
  spool(signal: AbortSignal): Promise<TelemetryStatus>;
  /** Writes what is in memory. */
  flushSpool(signal: AbortSignal): Promise<{ readonly onDisk: boolean }>;
  /** The configured microcontrollers. */
  boards(signal: AbortSignal): Promise<readonly BoardReport[]>;
  /** Asks the bootloader who it is; the application is started again. */
  probeBoard(name: string, signal: AbortSignal): Promise<BoardProbe>;
  planBoard(name: string, path: string, signal: AbortSignal): Promise<BoardPlan>;
  flashBoard(board: BoardFile, onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome>;
  /** Puts back what the board held before it was flashed last. */
  restoreBoard(name: string, onEvent: OnEvent, signal: AbortSignal): Promise<OperationOutcome>;
  resetBoard(name: string, signal: AbortSignal): Promise<void>;
  /** Looks at everything that an update needs; changes nothing. A check that fails is a finding, not an error. */
  doctor(signal: AbortSignal): Promise<readonly DoctorFinding[]>;
}

/** What is told while an operation runs. `following`: another one asked first, this is its progress and will be its end. */
export type OperationEvent = UpdateProgress | { readonly kind: 'following'; readonly operation: OperationName };

export type OperationName = 'update' | 'install' | 'commit' | 'rollback' | 'cancel' | 'flash' | 'restore';

export type OnEvent = (event: OperationEvent) => void;

export interface DoctorFinding {
  /** Two or three words, e.g. `boot environment`. */
  readonly name: string;
  readonly ok: boolean;
  /** One line: what was found. */
  readonly detail: string;
  /** One line: what to do about it. */
  readonly advice?: string | undefined;
}

export interface InstallOptions {
  /** false: stop before the reboot and say that one is needed. */
  readonly reboot: boolean;
  /** For this order alone, quarantine, attempts and maintenance window do not count. Never lifts verification. */
  readonly force: boolean;
  /** Root lifts the floor for this once; the control socket does not take it. */
  readonly allowDowngrade?: boolean | undefined;
}

export type OperationOutcome =
  | { readonly kind: 'up-to-date'; readonly version: string }
  | { readonly kind: 'held-back'; readonly version: string; readonly code: string; readonly reason: string }
  | { readonly kind: 'installed'; readonly version: string }
  | { readonly kind: 'reboot-required'; readonly version: string; readonly slot: SlotName }
  | {
      readonly kind: 'rebooting';
      readonly version: string;
      readonly slot: SlotName;
      readonly reason?: string | undefined;
      /** The version is left, for that reason. */
      readonly goesBack?: boolean | undefined;
    }
  | { readonly kind: 'rolled-back'; readonly version: string; readonly reason: string }
  | { readonly kind: 'cancelled'; readonly version: string }
  | { readonly kind: 'nothing-to-cancel'; readonly version: string }
  | { readonly kind: 'flashed'; readonly version: string; readonly board: string };

/** A microcontroller of the configuration, and what was flashed last, if this agent did it. */
export interface BoardReport {
  readonly name: string;
  readonly port: string;
  readonly protocol: string;
  /** The port is there; whether a board answers, only a probe can tell. */
  readonly connected: boolean;
  readonly chip: string | undefined;
  readonly imageDigest: string | undefined;
  readonly imageName: string | undefined;
  readonly flashedAt: string | undefined;
  readonly attempts: number | undefined;
  readonly roundTripMs: number | undefined;
  /** A write that began and has not ended: unless it is under way, the board may run nothing. */
  readonly writing?: BoardWriting | undefined;
}

export interface BoardWriting {
  readonly name: string;
  /** ISO 8601; undefined: the mark cannot be read. */
  readonly since: string | undefined;
  /** What stood on the board before is kept. */
  readonly restorable: boolean;
}

/** What changes something at the moment, and who does that. */
export interface Activity {
  /** `the daemon`, or another process and what was typed there. */
  readonly who: string;
  /** Undefined: of another process only its name is known. */
  readonly operation?: OperationName | undefined;
  readonly board?: string | undefined;
  readonly phase?: ProgressPhase | undefined;
  readonly doneBytes?: number | undefined;
  readonly totalBytes?: number | undefined;
}

export interface BoardProbe {
  readonly name: string;
  readonly chip: string;
  /** What its bootloader can do. */
  readonly can: readonly string[];
  readonly roundTripMs: number | undefined;
}

export interface BoardPlan {
  readonly name: string;
  readonly chip: string;
  readonly unitsTotal: number;
  /** Undefined where the protocol cannot find out. */
  readonly unitsDifferent: number | undefined;
}

/** A file for a microcontroller. */
export interface BoardFile {
  readonly name: string;
  readonly path: string;
}

export interface CheckReport {
  readonly installed: InstalledReport | undefined;
  readonly offered: Version | undefined;
  /** What an update now would do, and why. */
  readonly plan: 'install' | 'up-to-date' | 'held-back' | 'nothing-offered';
  readonly reason: string;
}

export interface InstalledReport {
  readonly versionId: string | undefined;
  readonly versionName: string;
  readonly digest: string;
  readonly slot: SlotName | undefined;
  /** Undefined: it was installed unsigned. */
  readonly signedBy: string | undefined;
  readonly at: string;
  /** It came with the image, which names itself: no agent installed it, and nothing of it was verified. */
  readonly factory?: boolean | undefined;
}

export interface StatusReport {
  readonly agentVersion: string;
  readonly daemon: boolean;
  readonly serialNumber: string | undefined;
  readonly thingId: string | undefined;
  readonly installed: InstalledReport | undefined;
  readonly previous: InstalledReport | undefined;
  readonly phase: string;
  /** Undefined: nothing is at work; a phase other than `idle` was interrupted, or waits. */
  readonly activity?: Activity | undefined;
  /** How much of a firmware whose staging was interrupted need not be sent again. */
  readonly arrived?: { readonly bytes: number; readonly totalBytes: number } | undefined;
  readonly slots: Readonly<Record<string, string>> | undefined;
  readonly booted: SlotName | undefined;
  readonly lastOutcome: OutcomeReport | undefined;
  /** What ended badly and is not tried again by itself. */
  readonly quarantine: readonly QuarantineReport[];
  /** Why nothing is being installed now. */
  readonly idleReason: string;
  /** ISO 8601; undefined without a schedule. */
  readonly nextLookAt: string | undefined;
  readonly pendingSwitch: string | undefined;
  readonly boards: readonly BoardReport[];
  readonly pendingReports: number;
  /** Ends of attempts that the service will not learn, but for their number. */
  readonly droppedReports: number;
  /** `allow_unsigned` and the like: what weakens a promise, said each time. */
  readonly warnings: readonly string[];
  /** Undefined: no daemon runs. */
  readonly telemetry: TelemetryStatus | undefined;
  readonly service: {
    readonly url: string;
    readonly lastError: string | undefined;
    readonly lastContactAt: string | undefined;
    /** Undefined: nothing is said through a broker. */
    readonly broker?: BrokerStatus | undefined;
  };
}

export interface QuarantineReport {
  readonly version: string;
  /** Undefined: it was installed from a file. */
  readonly versionId: string | undefined;
  readonly digest: string;
  readonly code: string;
  readonly reason: string;
  readonly at: string;
  /** Undefined: the clock was not set. */
  readonly until: string | undefined;
}

/** The messaging form's way to the service, and what came on it that was no answer to a question of ours. */
export interface BrokerStatus {
  readonly url: string;
  readonly state: 'unused' | 'connecting' | 'connected' | 'waiting';
  /** Why there is no connection. */
  readonly problem: { readonly code: string; readonly message: string } | undefined;
  /** How many messages were ignored since the start, by what they were. */
  readonly ignored: Readonly<Record<string, number>>;
}

/** The end of one attempt; what is reported to the service too. */
export interface OutcomeReport {
  readonly attempt: string;
  readonly version: string;
  readonly outcome: 'installed' | 'failed' | 'refused' | 'rolled-back';
  /** An error's stable code, or `ok`. */
  readonly code: string;
  readonly reason: string;
  readonly at: string;
  /** So many earlier attempts ended the same way, and are not reported by themselves. */
  readonly repeats?: number | undefined;
  /** So many earlier ends were dropped. */
  readonly dropped?: number | undefined;
}

/** How a failure crosses the control socket. */
export interface ReportedError {
  readonly code: string;
  readonly message: string;
  readonly exit: ExitKind;
  readonly advice?: string | undefined;
}
