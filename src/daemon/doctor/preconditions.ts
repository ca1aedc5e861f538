import { AgentError, describeError, valueOrError } from '../../system/errors.ts';
import { DaemonError } from '../errors.ts';

/** The error of everything that needs a target of kind slots where none is configured. */
export function noSlotsError(): DaemonError {
  return new DaemonError('no-slots-configured', 'the configuration has no target of kind slots');
}

/** The configuration file as the next start will read it. */
export interface ConfigStatus {
  readonly path: string;
  /** The daemon still uses what stood there before, until it is told so by systemctl. */
  readonly change: 'none' | 'reload' | 'restart';
}

/** Throws ConfigError; undefined: the file was just read. */
export type ReloadedConfig = (() => Promise<ConfigStatus>) | undefined;

export function describeConfig({ path, change }: ConfigStatus): string {
  if (change === 'none') return `${path} can be used`;
  return `${path} can be used, and has changed since the daemon read it: systemctl ${change} thing-agent`;
}

/** Why the next start of the agent would refuse its configuration; undefined: it would not. */
export async function configProblem(readAgain: ReloadedConfig): Promise<string | undefined> {
  return (await lookAtConfig(readAgain)).trouble;
}

/** `trouble`: why the next start would refuse it; `change`: what a person should know of it else. */
export async function lookAtConfig(
  readAgain: ReloadedConfig,
): Promise<{ readonly trouble?: string; readonly change?: string }> {
  const now = readAgain && (await valueOrError(readAgain()));
  if (now instanceof AgentError) return { trouble: describeError(now) };
  return now === undefined || now.change === 'none' ? {} : { change: describeConfig(now) };
}

export function noTargetsError(): DaemonError {
  return new DaemonError('no-targets-configured', 'the configuration has no targets, so there is nothing to update');
}
