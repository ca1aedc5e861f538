import { AgentError, valueOrError } from '../../system/errors.ts';
import type { ProgramResult, runProgram } from '../../system/processes/child-process.ts';
import type { Clock } from '../../system/time/clock.ts';
import type { TrialFailure, PhaseOf, UpdateState, Cause } from '../journal/state.ts';
import { entryOf } from '../journal/versions.ts';

export interface HealthSettings {
  readonly deadlineMs: number;
  /** Each must exit with 0. */
  readonly commands: readonly (readonly [string, ...string[]])[];
  /** The user whose rights they have. Default: the agent's. */
  readonly user?: string | undefined;
  /** Each must be active, and stay so. */
  readonly units: readonly string[];
  /** No unit may have been restarted for this time. */
  readonly stableForMs: number;
  /** The service must answer. */
  readonly service: boolean;
}

export interface HealthPorts {
  readonly clock: Clock;
  readonly run: typeof runProgram;
  readonly reachService: (signal: AbortSignal) => Promise<unknown>;
}

/** `isCut`: found only because the deadline ended it; an earlier finding is more informative. */
interface Finding extends HealthComplaint {
  readonly isCut?: boolean;
}

/** Environment and user of the programs. */
interface Running {
  readonly ports: HealthPorts;
  readonly user?: string | undefined;
  readonly signal: AbortSignal;
}

const unhealthy = (reason: string, isCut = false): Finding => ({ code: 'unhealthy', reason, isCut });

const PAUSE_MS = 2_000;
const MAX_COMMAND_MS = 60_000;

/** Guarantee `trial`: checks again until everything is healthy, or the deadline has passed. */
export function createHealthGate(settings: HealthSettings, ports: HealthPorts): HealthGate {
  return {
    check: (signal) =>
      checkUntilDeadline(settings, ports, (timeoutMs) => firstFinding(settings, ports, timeoutMs, signal), signal),
    reachesService: async (signal) => {
      const ask = (timeoutMs: number): Promise<Finding | undefined> => checkService(ports, timeoutMs, signal);
      return (await checkUntilDeadline(settings, ports, ask, signal)) === undefined;
    },
  };
}

async function checkUntilDeadline(
  { deadlineMs }: HealthSettings,
  { clock }: HealthPorts,
  check: (timeoutMs: number) => Promise<Finding | undefined>,
  signal: AbortSignal,
): Promise<HealthComplaint | undefined> {
  const endMs = clock.monotonicMs() + deadlineMs;
  let complaint: HealthComplaint | undefined;
  for (;;) {
    const leftMs = Math.max(1, endMs - clock.monotonicMs());
    const found = await check(Math.ceil(Math.min(leftMs, MAX_COMMAND_MS)));
    if (found === undefined) return undefined;
    const { code, reason, isCut = false } = found;
    if (complaint === undefined || !isCut) complaint = { code, reason };
    if (endMs - clock.monotonicMs() <= PAUSE_MS) return complaint;
    await clock.sleep(PAUSE_MS, signal);
  }
}

async function firstFinding(
  { commands, user, units, service, stableForMs }: HealthSettings,
  ports: HealthPorts,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Finding | undefined> {
  for (const command of commands) {
    const result = await resultOf(command, timeoutMs, { ports, user, signal });
    const finding = 'reason' in result ? result : findingOf(command, result);
    if (finding !== undefined) return finding;
  }
  const { finding } = await checkUnits(units, timeoutMs, { ports, signal });
  if (finding !== undefined) return finding;
  const found = service ? await checkService(ports, timeoutMs, signal) : undefined;
  return found ?? checkRestarts(units, stableForMs, { ports, signal });
}

/** Returns the invocation of each unit, in order, and a finding if one is not active. */
async function checkUnits(
  units: readonly string[],
  timeoutMs: number,
  running: Running,
): Promise<{ readonly finding?: Finding; readonly invocations: readonly string[] }> {
  const invocations: string[] = [];
  for (const unit of units) {
    const result = await resultOf(showUnit(unit), timeoutMs, running);
    if ('reason' in result) return { finding: result, invocations };
    const state = unitState(result);
    const reason = complaintOfUnit(unit, state);
    if (reason !== undefined) return { finding: unhealthy(reason), invocations };
    invocations.push(state.InvocationID);
  }
  return { invocations };
}

/** A unit that crashes and restarts repeatedly is active in between, so that a single check is not enough. */
async function checkRestarts(
  units: readonly string[],
  stableForMs: number,
  running: Running,
): Promise<Finding | undefined> {
  if (units.length === 0) return undefined;
  const { clock } = running.ports;
  const endMs = clock.monotonicMs() + stableForMs;
  const first = await checkUnits(units, MAX_COMMAND_MS, running);
  for (;;) {
    const leftMs = endMs - clock.monotonicMs();
    if (first.finding !== undefined || leftMs <= 0) return first.finding;
    await clock.sleep(Math.min(PAUSE_MS, leftMs), running.signal);
    const { finding, invocations } = await checkUnits(units, MAX_COMMAND_MS, running);
    if (finding !== undefined) return finding;
    const restarted = units.find((_, index) => invocations[index] !== first.invocations[index]);
    if (restarted !== undefined)
      return unhealthy(`${restarted} was active, and was started again within ${stableForMs / 1000} s`);
  }
}

function findingOf(command: readonly string[], { exitCode, stdout, stderr }: ProgramResult): Finding | undefined {
  if (exitCode === 0) return undefined;
  const output = lastLine(stderr) ?? lastLine(stdout);
  return unhealthy(`${command.join(' ')}: exit code ${exitCode ?? 'none'}${output === undefined ? '' : `, ${output}`}`);
}

async function resultOf(
  command: readonly [string, ...string[]],
  timeoutMs: number,
  { ports, user, signal }: Running,
): Promise<ProgramResult | Finding> {
  const result = await valueOrError(ports.run(command, { timeoutMs, user }, signal));
  if (!(result instanceof AgentError)) return result;
  if (result.code !== 'program-timeout') return unhealthy(result.message);
  // the program that runs it for its user may have another name
  return unhealthy(`${command.join(' ')}: no end within ${timeoutMs} ms`, timeoutMs < MAX_COMMAND_MS);
}

async function checkService(ports: HealthPorts, timeoutMs: number, signal: AbortSignal): Promise<Finding | undefined> {
  const deadline = AbortSignal.timeout(timeoutMs);
  try {
    await ports.reachService(AbortSignal.any([signal, deadline]));
    return undefined;
  } catch (error) {
    signal.throwIfAborted();
    if (deadline.aborted) {
      const isCut = timeoutMs < MAX_COMMAND_MS;
      return { code: 'service-unreached', reason: `the service did not respond within ${timeoutMs} ms`, isCut };
    }
    if (!(error instanceof AgentError)) throw error;
    // the service itself reports that it is down or busy; this release may have caused anything else
    return { code: error.exit === 'tryAgain' ? 'service-down' : 'service-unreached', reason: error.message };
  }
}

function lastLine(text: string): string | undefined {
  const line = text.trim().split('\n').at(-1)?.trim().slice(0, 200);
  return line === '' ? undefined : line;
}

export interface HealthComplaint {
  /**
   * `unhealthy`: its own commands or units failed. `service-down`: the service reports that it is down. `service-
   * unreached`: the service could not be reached.
   */
  readonly code: 'unhealthy' | 'service-down' | 'service-unreached';
  readonly reason: string;
}

/** Decides whether the running firmware is good enough to keep. */
export interface HealthGate {
  /** Resolves with undefined as soon as everything is healthy, or with the complaint at the deadline. */
  check(signal: AbortSignal): Promise<HealthComplaint | undefined>;
  /** Resolves with true as soon as the service answers, or with false at the deadline. */
  reachesService(signal: AbortSignal): Promise<boolean>;
}

/**
 * Longest duration of the health checks: anything healthy at the last moment before the deadline is watched beyond it.
 */
export function longestHealthMs(health: {
  readonly deadlineMs: number;
  readonly units: readonly string[];
  readonly stableForMs: number;
}): number {
  return health.deadlineMs + (health.units.length === 0 ? 0 : health.stableForMs);
}

/** `InvocationID` is another one with each start of the unit (systemd.exec(5)). */
const properties = ['LoadState', 'ActiveState', 'SubState', 'InvocationID'] as const;

/** Properties of a unit from systemd (systemctl(1), show). */
type UnitState = Readonly<Record<(typeof properties)[number], string>>;

export function showUnit(unit: string): [string, ...string[]] {
  return ['systemctl', 'show', `--property=${properties.join(',')}`, '--', unit];
}

export function unitState({ stdout }: Pick<ProgramResult, 'stdout'>): UnitState {
  const lines = new Map(stdout.split('\n').map((line) => [line.split('=', 1)[0], line.slice(line.indexOf('=') + 1)]));
  const of = (name: (typeof properties)[number]): string => lines.get(name)?.trim() ?? '';
  return {
    LoadState: of('LoadState'),
    ActiveState: of('ActiveState'),
    SubState: of('SubState'),
    InvocationID: of('InvocationID'),
  };
}

/** Returns why the unit is not active, if it is not. */
export function complaintOfUnit(unit: string, { LoadState, ActiveState, SubState }: UnitState): string | undefined {
  if (LoadState === 'not-found') return `there is no unit ${unit}`;
  if (LoadState !== 'loaded' && LoadState !== '') return `${unit} is ${LoadState}, so it cannot be active`;
  if (ActiveState === 'active') return undefined;
  if (ActiveState === '') return `systemd does not say how ${unit} is`;
  return `${unit} is ${ActiveState}${SubState === ActiveState ? '' : ` (${SubState})`}`;
}

/** The trial had no way to the service, which its firmware may have broken. */
const UNREACHED = 'service-unreached';

/**
 * The fault of a trial that ended in silence: once, it may be the power; as often as a version may fail, it is the
 * firmware.
 */
export function causeWithoutReport({ versions, phase }: UpdateState, attempts: number): Cause {
  if (!('firmware' in phase) || phase.attempt.by !== 'service') return 'world';
  const entry = entryOf(versions, { version: phase.attempt.version, digest: phase.firmware.digest });
  return (entry?.gaveUp ?? 0) + 1 >= attempts ? 'firmware' : 'world';
}

/**
 * Finds the fault of a trial that could not reach the service: the old system tries whether the service can be reached
 * now.
 */
export async function findCause(
  { code, reason, fault }: PhaseOf<'rolling-back'>,
  health: HealthGate,
  signal: AbortSignal,
): Promise<TrialFailure> {
  if (code !== UNREACHED || fault !== 'world') return { code, reason, fault };
  const reached = await health.reachesService(signal);
  if (!reached) return { code, reason: `${reason}; neither can the running version`, fault };
  return { code, reason: `${reason}; the running version can`, fault: 'firmware' };
}
