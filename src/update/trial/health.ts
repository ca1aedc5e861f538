import { AgentError } from '../../system/errors.ts';
import type { ProgramResult, runProgram } from '../../system/processes/child-process.ts';
import type { Clock } from '../../system/time/clock.ts';
import type { HealthComplaint, HealthGate } from './health-gate.ts';

export interface HealthSettings {
  readonly deadlineMs: number;
  /** Each must exit with 0. */
  readonly commands: readonly (readonly [string, ...string[]])[];
  /** The user whose rights they have; undefined: the agent's. */
  readonly user?: string | undefined;
  /** Each must be active. */
  readonly units: readonly string[];
  /** The service must answer. */
  readonly service: boolean;
}

export interface HealthPorts {
  readonly clock: Clock;
  readonly run: typeof runProgram;
  readonly reachService: (signal: AbortSignal) => Promise<void>;
}

/** `isCut`: found only because the deadline ended it; an earlier finding says more. */
interface Finding extends HealthComplaint {
  readonly isCut?: boolean;
}

const unhealthy = (found: Pick<Finding, 'reason' | 'isCut'>): Finding => ({ code: 'unhealthy', ...found });

const PAUSE_MS = 2_000;
const MAX_COMMAND_MS = 60_000;

/** Promise `trial`: asks again until everything is healthy, or the deadline has passed. */
export function createHealthGate(settings: HealthSettings, ports: HealthPorts): HealthGate {
  const askService = (leftMs: number, signal: AbortSignal): Promise<Finding | undefined> =>
    complaintOfService(ports, Math.ceil(Math.min(leftMs, MAX_COMMAND_MS)), signal);
  return {
    check: (signal) =>
      askUntilDeadline(settings, ports, (leftMs) => firstComplaint(settings, ports, leftMs, signal), signal),
    reachesService: async (signal) => {
      const complaint = await askUntilDeadline(settings, ports, (leftMs) => askService(leftMs, signal), signal);
      return complaint === undefined;
    },
  };
}

async function askUntilDeadline(
  { deadlineMs }: HealthSettings,
  { clock }: HealthPorts,
  ask: (leftMs: number) => Promise<Finding | undefined>,
  signal: AbortSignal,
): Promise<HealthComplaint | undefined> {
  const endMs = clock.monotonicMs() + deadlineMs;
  let complaint: HealthComplaint | undefined;
  for (;;) {
    const found = await ask(Math.max(1, endMs - clock.monotonicMs()));
    if (found === undefined) return undefined;
    const { code, reason, isCut = false } = found;
    if (complaint === undefined || !isCut) complaint = { code, reason };
    if (endMs - clock.monotonicMs() <= PAUSE_MS) return complaint;
    await clock.sleep(PAUSE_MS, signal);
  }
}

async function firstComplaint(
  settings: HealthSettings,
  ports: HealthPorts,
  leftMs: number,
  signal: AbortSignal,
): Promise<Finding | undefined> {
  const timeoutMs = Math.ceil(Math.min(leftMs, MAX_COMMAND_MS));
  for (const command of settings.commands) {
    const complaint = await complaintOf(command, (result) => result.exitCode === 0, timeoutMs, {
      ports,
      user: settings.user,
      signal,
    });
    if (complaint !== undefined) return unhealthy(complaint);
  }
  for (const unit of settings.units) {
    const command = ['systemctl', 'is-active', unit] as const;
    const complaint = await complaintOf(command, (result) => result.stdout.trim() === 'active', timeoutMs, {
      ports,
      signal,
    });
    if (complaint !== undefined) return unhealthy(complaint);
  }
  return settings.service ? complaintOfService(ports, timeoutMs, signal) : undefined;
}

async function complaintOf(
  command: readonly [string, ...string[]],
  isHealthy: (result: ProgramResult) => boolean,
  timeoutMs: number,
  {
    ports,
    user,
    signal,
  }: { readonly ports: HealthPorts; readonly user?: string | undefined; readonly signal: AbortSignal },
): Promise<Pick<Finding, 'reason' | 'isCut'> | undefined> {
  const name = command.join(' ');
  try {
    const result = await ports.run(command, { timeoutMs, user }, signal);
    if (isHealthy(result)) return undefined;
    const said = lastLine(result.stderr) ?? lastLine(result.stdout);
    return { reason: `${name}: exit code ${result.exitCode ?? 'none'}${said === undefined ? '' : `, ${said}`}` };
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    // the program that runs it for its user may have another name
    if (error.code !== 'program-timeout') return { reason: error.message };
    return { reason: `${name}: no end within ${timeoutMs} ms`, isCut: timeoutMs < MAX_COMMAND_MS };
  }
}

async function complaintOfService(
  ports: HealthPorts,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Finding | undefined> {
  const deadline = AbortSignal.timeout(timeoutMs);
  try {
    await ports.reachService(AbortSignal.any([signal, deadline]));
    return undefined;
  } catch (error) {
    signal.throwIfAborted();
    if (deadline.aborted) {
      const isCut = timeoutMs < MAX_COMMAND_MS;
      return { code: 'service-unreached', reason: `the service did not answer within ${timeoutMs} ms`, isCut };
    }
    if (!(error instanceof AgentError)) throw error;
    return { code: saysTryAgain(error) ? 'service-down' : 'service-unreached', reason: error.message };
  }
}

/** Whether the service itself says that it is down or busy. Anything else may be caused by this firmware. */
function saysTryAgain({ exit }: AgentError): boolean {
  return exit === 'tryAgain';
}

function lastLine(text: string): string | undefined {
  const line = text.trim().split('\n').at(-1)?.trim().slice(0, 200);
  return line === '' ? undefined : line;
}
