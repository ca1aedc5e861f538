/** The states and problems of a gateway, as stable codes for programs. This file imports no package. */

export const gatewayStates = [
  /** The gateway runs the assigned version; no action is needed. */
  'ok',
  'busy',
  /** A new version runs and its health checks are running. */
  'on-trial',
  /** A new version is staged and waits for a reboot. */
  'staged',
  /** An operation was interrupted and resumes later. */
  'interrupted',
  'rolling-back',
  /** An operator paused updates: see `hold`. */
  'on-hold',
  /** An operator must act: see `problems`. */
  'needs-attention',
  /** The gateway cannot be updated, or a board has no program: see `problems`. */
  'broken',
] as const;
export type GatewayState = (typeof gatewayStates)[number];

/** The worst problem first. */
export const problems = [
  'board-half-written',
  'update-impossible',
  /** The daemon runs with an older configuration: the next start of the agent rejects the current file. */
  'config-unusable',
  'journal-lost',
  /** The revoked keys and releases were lost: only the next trust list is installed. */
  'trust-list-damaged',
  /** No key is trusted: nothing can be installed. */
  'no-trusted-key',
  'no-daemon',
  /** systemd starts the daemon. */
  'daemon-starting',
  /** The daemon runs, but is not responding. */
  'daemon-unresponsive',
  /** The running release was revoked, or the key that signed it. */
  'release-revoked',
  'not-activated',
  'last-attempt-failed',
  'last-attempt-refused',
  'last-attempt-rolled-back',
  'service-failing',
  /** A source has been failing for some minutes, or delivers only unusable values. */
  'sensor-failing',
] as const;
export type Problem = (typeof problems)[number];

/** The reasons for deferring an offered version. */
export const deferralCodes = [
  'quarantined',
  'attempts-exhausted',
  'retry-backoff',
  'outside-window',
  'outside-reboot-window',
  'metered-connection',
  'config-unusable',
  'clock-unsynchronized',
  'hook-deferred',
  'manual-override',
  'flapping',
  'on-hold',
  'cancelled',
] as const;
export type DeferralCode = (typeof deferralCodes)[number];

/** The reasons for not installing anything. */
export const idleCodes = [
  'update-impossible',
  'journal-lost',
  'staging',
  'interrupted',
  'staged',
  'trial',
  'rolling-back',
  'no-daemon',
  'daemon-unresponsive',
  'service-failing',
  'not-asked',
  'update-available',
  'up-to-date',
  'nothing-offered',
  ...deferralCodes,
] as const;
export type IdleCode = (typeof idleCodes)[number];

/** True if a daemon runs; `starting` while systemd starts it; `unresponsive` if it is not responding. */
export type DaemonStatus = boolean | 'starting' | 'unresponsive';

export interface StateInput {
  readonly phase: string;
  readonly activity?: object | undefined;
  readonly problems: readonly Problem[];
  readonly hold?: object | undefined;
}

const breaking: ReadonlySet<Problem> = new Set<Problem>([
  'board-half-written',
  'update-impossible',
  'config-unusable',
  'trust-list-damaged',
  'no-trusted-key',
]);

/**
 * Returns the state of a gateway. A trial stays `on-trial` even while the agent works on it, since an operator may want
 * to end it. Pure.
 */
export function stateOf({ phase, activity, problems, hold }: StateInput): GatewayState {
  const ofPhase = phases[phase];
  if (activity !== undefined) return ofPhase === 'on-trial' || ofPhase === 'rolling-back' ? ofPhase : 'busy';
  if (problems.some((code) => breaking.has(code))) return 'broken';
  if (problems.includes('daemon-unresponsive')) return 'needs-attention'; // no daemon continues the phase
  if (phase === 'trial' && problems.includes('no-daemon')) return 'needs-attention'; // no health checks run
  if (problems.includes('daemon-starting')) return 'busy';
  return phase === 'idle' ? stateOfIdle(problems, hold) : stateOfPhase(phase, hold);
}

function stateOfIdle(problems: readonly Problem[], hold: object | undefined): GatewayState {
  if (problems.length > 0) return 'needs-attention';
  return hold === undefined ? 'ok' : 'on-hold';
}

/** A hold keeps an interrupted download from being resumed; it does not affect a staged update or a trial. */
function stateOfPhase(phase: string, hold: object | undefined): GatewayState {
  return phase === 'staging' && hold !== undefined ? 'on-hold' : (phases[phase] ?? 'busy');
}

const phases: Readonly<Record<string, GatewayState>> = {
  staging: 'interrupted',
  staged: 'staged',
  trial: 'on-trial',
  'rolling-back': 'rolling-back',
  lost: 'broken',
};

/**
 * Exit codes of `agent status --exit-code` for monitoring: 0 ok, 1 needs attention, 2 broken. States that the agent
 * ends on its own count as ok. "To do" names something exactly if the code is not 0.
 */
export const stateExitCodes: Readonly<Record<GatewayState, number>> = {
  ok: 0,
  busy: 0,
  'on-trial': 0,
  staged: 1,
  interrupted: 1,
  'rolling-back': 1,
  'on-hold': 1,
  'needs-attention': 1,
  broken: 2,
};

export interface ProblemInput {
  readonly phase: string;
  readonly daemon: DaemonStatus;
  readonly thingId: string | undefined;
  readonly boards: readonly { readonly writing?: object | undefined }[];
  readonly lastOutcome?:
    | { readonly outcome: string; readonly code?: string | undefined; readonly by?: string | undefined }
    | undefined;
  readonly service: { readonly lastError: string | undefined };
  /** Omitted without a daemon. */
  readonly telemetry?: SourcesSeen | undefined;
  /** False if the bootloader or the state directory fails. */
  readonly canUpdate?: boolean | undefined;
  readonly distrust?: readonly TrustProblem[] | undefined;
  /** True if the next start of the agent rejects its configuration. */
  readonly isConfigUnusable?: boolean | undefined;
  /** True if the journal was lost, and no version was installed since. */
  readonly hasForgotten?: boolean | undefined;
}

interface FailingSource {
  readonly failingForMs?: number | undefined;
}

interface SourcesSeen {
  readonly sources: readonly FailingSource[];
}

const SENSOR_FAILING_MS = 10 * 60_000;

/** True if a source has been failing long enough to need attention. */
export function failsForLong({ failingForMs = 0 }: FailingSource): boolean {
  return failingForMs >= SENSOR_FAILING_MS;
}

/** A problem of the trusted keys or of the running release. */
export type TrustProblem = Extract<Problem, 'trust-list-damaged' | 'no-trusted-key' | 'release-revoked'>;

const problemOfDaemon: ReadonlyMap<DaemonStatus, Problem> = new Map<DaemonStatus, Problem>([
  [false, 'no-daemon'],
  ['starting', 'daemon-starting'],
  ['unresponsive', 'daemon-unresponsive'],
]);

/**
 * Returns the problems, the worst first. A manually installed file that was refused is not a problem, since the
 * operator saw the error. Pure.
 */
export function problemsOf(facts: ProblemInput): readonly Problem[] {
  const { phase, daemon, thingId, boards, lastOutcome, service, telemetry } = facts;
  const { canUpdate, distrust, isConfigUnusable } = facts;
  const found = new Set<Problem | false>([
    boards.some(({ writing }) => writing !== undefined) && 'board-half-written',
    canUpdate === false && 'update-impossible',
    isConfigUnusable === true && 'config-unusable',
    (phase === 'lost' || facts.hasForgotten === true) && 'journal-lost',
    problemOfDaemon.get(daemon) ?? false,
    thingId === undefined && 'not-activated',
    problemOfAttempt(lastOutcome) ?? false,
    service.lastError !== undefined && 'service-failing',
    hasFailingSensor(telemetry) && 'sensor-failing',
    ...(distrust ?? []),
  ]);
  return problems.filter((code) => found.has(code));
}

function hasFailingSensor(telemetry: SourcesSeen | undefined): boolean {
  return telemetry?.sources.some(failsForLong) ?? false;
}

/** The codes of outcomes that an operator or the service requested. */
const wanted: ReadonlySet<string> = new Set(['cancelled', 'manual', 'withdrawn', 'overridden', 'superseded']);

function problemOfAttempt(last: ProblemInput['lastOutcome']): Problem | undefined {
  if (last === undefined || wanted.has(last.code ?? '')) return undefined;
  if (last.outcome === 'rolled-back') return 'last-attempt-rolled-back';
  if (last.by === 'file') return undefined;
  if (last.outcome === 'refused') return 'last-attempt-refused';
  return last.outcome === 'failed' ? 'last-attempt-failed' : undefined;
}
