import type { ProgramResult, runProgram } from '../system/child-process.ts';
import type { Clock } from '../system/clock.ts';
import { AgentError } from '../system/errors.ts';
import type { HealthGate } from './ports.ts';

export interface HealthSettings {
  readonly deadlineMs: number;
  /** Each must exit with 0. */
  readonly commands: readonly (readonly [string, ...string[]])[];
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

const PAUSE_MS = 2_000;
const MAX_COMMAND_MS = 60_000;

/** Asks again until everything is healthy, or the deadline has passed. */
export function createHealthGate(settings: HealthSettings, ports: HealthPorts): HealthGate {
  return { check: (signal) => checkUntilDeadline(settings, ports, signal) };
}

async function checkUntilDeadline(
  settings: HealthSettings,
  ports: HealthPorts,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { clock } = ports;
  const endMs = clock.monotonicMs() + settings.deadlineMs;
  for (;;) {
    const leftMs = endMs - clock.monotonicMs();
    const reason = await firstComplaint(settings, ports, Math.max(1, leftMs), signal);
    if (reason === undefined) return undefined;
    if (endMs - clock.monotonicMs() <= PAUSE_MS) return reason;
    await clock.sleep(PAUSE_MS, signal);
  }
}

async function firstComplaint(
  settings: HealthSettings,
  ports: HealthPorts,
  leftMs: number,
  signal: AbortSignal,
): Promise<string | undefined> {
  const timeoutMs = Math.ceil(Math.min(leftMs, MAX_COMMAND_MS));
  for (const command of settings.commands) {
    const complaint = await complaintOf(command, (result) => result.exitCode === 0, timeoutMs, { ports, signal });
    if (complaint !== undefined) return complaint;
  }
  for (const unit of settings.units) {
    const command = ['systemctl', 'is-active', unit] as const;
    const complaint = await complaintOf(command, (result) => result.stdout.trim() === 'active', timeoutMs, {
      ports,
      signal,
    });
    if (complaint !== undefined) return complaint;
  }
  return settings.service ? complaintOfService(ports, timeoutMs, signal) : undefined;
}

async function complaintOf(
  command: readonly [string, ...string[]],
  isHealthy: (result: ProgramResult) => boolean,
  timeoutMs: number,
  { ports, signal }: { readonly ports: HealthPorts; readonly signal: AbortSignal },
): Promise<string | undefined> {
  try {
    const result = await ports.run(command, { timeoutMs }, signal);
    if (isHealthy(result)) return undefined;
    const said = lastLine(result.stderr) ?? lastLine(result.stdout);
    return `${command.join(' ')}: exit code ${result.exitCode ?? 'none'}${said === undefined ? '' : `, ${said}`}`;
  } catch (error) {
    if (error instanceof AgentError) return error.message;
    throw error;
  }
}

async function complaintOfService(
  ports: HealthPorts,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<string | undefined> {
  const deadline = AbortSignal.timeout(timeoutMs);
  try {
    await ports.reachService(AbortSignal.any([signal, deadline]));
    return undefined;
  } catch (error) {
    signal.throwIfAborted();
    if (deadline.aborted) return `the service did not answer within ${timeoutMs} ms`;
    if (error instanceof AgentError) return error.message;
    throw error;
  }
}

function lastLine(text: string): string | undefined {
  const line = text.trim().split('\n').at(-1)?.trim().slice(0, 200);
  return line === '' ? undefined : line;
}
