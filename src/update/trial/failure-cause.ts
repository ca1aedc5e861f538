import type { TrialFailure, PhaseOf, UpdateState, Cause } from '../journal/state.ts';
import { entryOf } from '../journal/versions.ts';
import type { HealthGate } from './health.ts';

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
  if (!reached) return { code, reason: `${reason}; nor can what runs now`, fault };
  return { code, reason: `${reason}; what runs now can`, fault: 'firmware' };
}
