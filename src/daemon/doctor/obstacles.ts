import { DaemonError } from '../errors.ts';

/** The error of everything that needs a target of kind slots where none is configured. */
export function noSlots(): DaemonError {
  return new DaemonError('no-slots-configured', 'the configuration has no target of kind slots');
}

export function noTargets(): DaemonError {
  return new DaemonError('no-targets-configured', 'the configuration has no targets, so there is nothing to update');
}
