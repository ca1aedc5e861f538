import { AgentError, describeError, valueOrError } from '../../system/errors.ts';
import { DaemonError } from '../errors.ts';

/** The error of everything that needs a target of kind slots where none is configured. */
export function noSlotsError(): DaemonError {
  return new DaemonError('no-slots-configured', 'the configuration has no target of kind slots');
}

/** The configuration file as the next start will read it. */
export interface ConfigStatus {
  readonly path: string;
  /** The daemon still uses the previous content until systemctl reloads or restarts it. */
  readonly change: 'none' | 'reload' | 'restart';
}

/** Throws ConfigError. Undefined if the file was just read. */
export type ReloadedConfig = (() => Promise<ConfigStatus>) | undefined;

export function describeConfig({ path, change }: ConfigStatus): string {
  if (change === 'none') return `${path} can be used`;
  return `${path} can be used, and has changed since the daemon read it: systemctl ${change} thing-agent`;
}

/** `trouble`: the reason why the next start would reject it; `change`: other notes for the operator. */
export async function checkLoadedConfig(
  readAgain: ReloadedConfig,
): Promise<{ readonly trouble?: string; readonly change?: string }> {
  const now = readAgain && (await valueOrError(readAgain()));
  if (now instanceof AgentError) return { trouble: describeError(now) };
  return now === undefined || now.change === 'none' ? {} : { change: describeConfig(now) };
}

export function noTargetsError(): DaemonError {
  return new DaemonError('no-targets-configured', 'the configuration has no targets, so there is nothing to update');
}
