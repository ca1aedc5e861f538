import type { Attempt, PhaseOf, UpdateState } from '../journal/state.ts';
import { entryOf } from '../policy/holds/versions.ts';
import type { Cause, HealthGate } from './health-gate.ts';

/**
 * Why a trial ends, and whose fault that is. A firmware at fault is not tried again by itself; after a fault of the
 * world it is.
 */
export interface TrialFailure {
  readonly code: string;
  readonly reason: string;
  readonly fault: Cause;
}

/** A person ended the wait for a trial that never ran. */
export const CANCELLED_BEFORE_BOOT = {
  code: 'cancelled',
  reason: 'a person cancelled it before it ran',
  fault: 'person',
} as const;

/** The trial had no way to the service, which its firmware may have broken. */
const UNREACHED = 'service-unreached';

/**
 * Codes that are the world's fault if they occur once: the power, a disk that was full, a state partition that a slow
 * gateway found too late. If they occur in each trial of a firmware, and not to what runs now, it does not come up,
 * fills the disk, or does not mount its state.
 */
const unclear: ReadonlySet<string> = new Set(['trial-fell-back', 'health-unknown', 'disk-full', 'state-unavailable']);

export function isAmbiguous(code: string): boolean {
  return unclear.has(code);
}

/** Whether the outcome counts against the firmware. What a person went back to is exempt if the person calls it off. */
export function countsAgainstRelease({ by }: Attempt, fault: Cause): boolean {
  return fault === 'firmware' || (fault === 'person' && by !== 'rollback');
}

/** Whether the slot stays bootable: one that a person wanted to go back to does, unless it was found bad. */
export function keepsFallback({ by }: Attempt, fault: Cause): boolean {
  return by === 'rollback' && fault !== 'firmware';
}

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
