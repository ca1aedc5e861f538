import { DaemonError } from '../errors.ts';

/** What cannot be done without a target of kind slots. */
export function noSlots(): DaemonError {
  return new DaemonError('no-slots-configured', 'the configuration has no target of kind slots');
}

export function noTargets(): DaemonError {
  return new DaemonError('no-targets-configured', 'the configuration has no targets, so there is nothing to update');
}
