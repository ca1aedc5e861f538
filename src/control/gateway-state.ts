/** The states of a gateway and its troubles, as stable words for programs. This file imports no package. */

export const gatewayStates = [
  /** The gateway does what the service wants; nothing is to be done. */
  'ok',
  /** An operation runs. */
  'busy',
  /** A new firmware runs and is being judged. */
  'on-trial',
  /** A new firmware is installed and waits for a reboot. */
  'staged',
  /** An operation was cut off and continues later. */
  'interrupted',
  'rolling-back',
  /** A person has stopped installing: see `hold`. */
  'on-hold',
  /** A person should look at the gateway: see `problems`. */
  'needs-attention',
  /** The gateway cannot be updated, or a board runs nothing: see `problems`. */
  'broken',
] as const;
export type GatewayState = (typeof gatewayStates)[number];

/** The worst trouble first. */
export const problems = [
  'board-half-written',
  'update-impossible',
  /** The daemon runs with an older configuration: the next start of the agent refuses what the file says now. */
  'config-unusable',
  'journal-lost',
  /** The revoked keys and releases are not known any more: only the next list is installed. */
  'trust-list-damaged',
  /** No key is trusted: nothing can be installed. */
  'no-trusted-key',
  'no-daemon',
  /** systemd starts the daemon. */
  'daemon-starting',
  /** The daemon runs, but does not answer. */
  'daemon-unresponsive',
  /** The release that runs was revoked, or the key that signed it. */
  'release-revoked',
  'not-activated',
  'last-attempt-failed',
  'last-attempt-refused',
  'last-attempt-rolled-back',
  'service-failing',
  /** A source of measurements has been failing for some minutes, or nothing that it delivers can be used. */
  'sensor-failing',
] as const;
export type Problem = (typeof problems)[number];

/** Why nothing is begun now, although the service names a version. */
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

/** Why nothing is being installed. */
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

/** True if a daemon runs; `starting`: systemd starts it; `silent`: it runs, but does not answer. */
export type DaemonStatus = boolean | 'starting' | 'silent';

/** The facts from which the state follows. */
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
  'journal-lost',
  'trust-list-damaged',
  'no-trusted-key',
]);

/**
 * The state of a gateway. A trial stays `on-trial` even while the agent works on it, since a person may want to end it.
 * Pure.
 */
export function stateOf({ phase, activity, problems, hold }: StateInput): GatewayState {
  const ofPhase = phases[phase];
  if (activity !== undefined) return ofPhase === 'on-trial' || ofPhase === 'rolling-back' ? ofPhase : 'busy';
  if (problems.some((code) => breaking.has(code))) return 'broken';
  if (problems.includes('daemon-unresponsive')) return 'needs-attention'; // no daemon continues what the phase says
  if (problems.includes('daemon-starting')) return 'busy';
  if (phase !== 'idle') return ofPhase ?? 'busy';
  if (problems.length > 0) return 'needs-attention';
  return hold === undefined ? 'ok' : 'on-hold';
}

const phases: Readonly<Record<string, GatewayState>> = {
  staging: 'interrupted',
  staged: 'staged',
  trial: 'on-trial',
  'rolling-back': 'rolling-back',
  lost: 'broken',
};

/**
 * Exit codes of `agent status --exit-code` for monitoring: 0 well, 1 attention, 2 broken. Everything that the agent
 * ends by itself counts as well.
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

/** The facts from which the troubles follow. */
export interface ProblemInput {
  readonly phase: string;
  readonly daemon: DaemonStatus;
  readonly thingId: string | undefined;
  readonly boards: readonly { readonly writing?: object | undefined }[];
  readonly lastOutcome?:
    | { readonly outcome: string; readonly code?: string | undefined; readonly by?: string | undefined }
    | undefined;
  readonly service: { readonly lastError: string | undefined };
  /** Undefined: no daemon runs. */
  readonly telemetry?: SourcesSeen | undefined;
  /** False: the bootloader or the state directory fails. */
  readonly canUpdate?: boolean | undefined;
  readonly distrust?: readonly TrustProblem[] | undefined;
  /** True: the next start of the agent refuses its configuration. */
  readonly isConfigUnusable?: boolean | undefined;
}

interface FailingSource {
  readonly failingForMs?: number | undefined;
}

interface SourcesSeen {
  readonly sources: readonly FailingSource[];
}

const SENSOR_FAILING_MS = 10 * 60_000;

/** True if a source has been failing for so long that somebody has to look at it. */
export function failsForLong({ failingForMs = 0 }: FailingSource): boolean {
  return failingForMs >= SENSOR_FAILING_MS;
}

/** What is wrong with the trusted keys, or with what they signed. */
export type TrustProblem = Extract<Problem, 'trust-list-damaged' | 'no-trusted-key' | 'release-revoked'>;

const problemOfDaemon: ReadonlyMap<DaemonStatus, Problem> = new Map<DaemonStatus, Problem>([
  [false, 'no-daemon'],
  ['starting', 'daemon-starting'],
  ['silent', 'daemon-unresponsive'],
]);

/**
 * The troubles, the worst first. A file that a person brought and that was not installed is no trouble, since the
 * person was told. Pure.
 */
export function troublesOf(facts: ProblemInput): readonly Problem[] {
  const { phase, daemon, thingId, boards, lastOutcome, service, telemetry } = facts;
  const { canUpdate, distrust, isConfigUnusable } = facts;
  const found = new Set<Problem | false>([
    boards.some(({ writing }) => writing !== undefined) && 'board-half-written',
    canUpdate === false && 'update-impossible',
    isConfigUnusable === true && 'config-unusable',
    phase === 'lost' && 'journal-lost',
    problemOfDaemon.get(daemon) ?? false,
    thingId === undefined && 'not-activated',
    troubleOfAttempt(lastOutcome) ?? false,
    service.lastError !== undefined && 'service-failing',
    hasFailingSensor(telemetry) && 'sensor-failing',
    ...(distrust ?? []),
  ]);
  return problems.filter((code) => found.has(code));
}

function hasFailingSensor(telemetry: SourcesSeen | undefined): boolean {
  return telemetry?.sources.some(failsForLong) ?? false;
}

/** Outcomes that somebody wanted. */
const wanted: ReadonlySet<string> = new Set(['cancelled', 'withdrawn', 'overridden', 'superseded']);

function troubleOfAttempt(last: ProblemInput['lastOutcome']): Problem | undefined {
  if (last?.outcome === 'rolled-back') return 'last-attempt-rolled-back';
  if (last === undefined || last.by === 'file' || wanted.has(last.code ?? '')) return undefined;
  if (last.outcome === 'refused') return 'last-attempt-refused';
  return last.outcome === 'failed' ? 'last-attempt-failed' : undefined;
}
