import { AgentError, describeError } from '../../system/errors.ts';
import { DaemonError } from '../errors.ts';

/** The error of everything that needs a target of kind slots where none is configured. */
export function noSlots(): DaemonError {
  return new DaemonError('no-slots-configured', 'the configuration has no target of kind slots');
}

/** Why the next start of the agent would refuse its configuration; undefined: it would not. `readAgain` throws ConfigError. */
export async function configTrouble(readAgain: (() => Promise<string>) | undefined): Promise<string | undefined> {
  try {
    await readAgain?.();
    return undefined;
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    return describeError(error);
  }
}

export function noTargets(): DaemonError {
  return new DaemonError('no-targets-configured', 'the configuration has no targets, so there is nothing to update');
}
