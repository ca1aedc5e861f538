import type { Attempt, PhaseOf, UpdateState } from '../journal/state.ts';
import type { Fault, HealthGate } from './health-gate.ts';

/** Why a trial ends, and whose fault that is: the firmware's is not tried again by itself, the world's is. */
export interface Complaint {
  readonly code: string;
  readonly reason: string;
  readonly fault: Fault;
}

/** A person ended the wait for a trial that never ran. */
export const CALLED_OFF = {
  code: 'cancelled',
  reason: 'a person cancelled it before it ran',
  fault: 'person',
} as const;

/** The trial had no way to the service: its firmware may have broken it. */
const UNREACHED = 'service-unreached';

/**
 * What happens once may be the world's: the power, a disk that was full, a state partition that a slow gateway found too late.
 * Where it happens in each of its trials, and not to what runs now, the firmware does not come up, fills the disk, or mounts
 * no state.
 */
const unclear: ReadonlySet<string> = new Set(['trial-fell-back', 'not-judged', 'disk-full', 'state-unavailable']);

export function isUnclear(code: string): boolean {
  return unclear.has(code);
}

/** What a person went back to is not held against it: the person may call it off. */
export function isHeldBack({ by }: Attempt, fault: Fault): boolean {
  return fault === 'firmware' || (fault === 'person' && by !== 'rollback');
}

/** The slot that a person wanted to go back to boots as before, unless it was found bad. */
export function staysFallback({ by }: Attempt, fault: Fault): boolean {
  return by === 'rollback' && fault !== 'firmware';
}

/** Once may be the power; as often as a version may fail, it is the firmware. */
export function faultOfSilence({ tries, phase }: UpdateState, attempts: number): Fault {
  const isOrder = 'attempt' in phase && phase.attempt.by === 'service';
  return isOrder && (tries?.gaveUp ?? 0) + 1 >= attempts ? 'firmware' : 'world';
}

/** The old system finds out whether the service was away, or the new one had no way to it. */
export async function findFault(
  { code, reason, fault }: PhaseOf<'rolling-back'>,
  health: HealthGate,
  signal: AbortSignal,
): Promise<Complaint> {
  if (code !== UNREACHED || fault !== 'world') return { code, reason, fault };
  const reached = await health.reachesService(signal);
  if (!reached) return { code, reason: `${reason}; nor can what runs now`, fault };
  return { code, reason: `${reason}; what runs now can`, fault: 'firmware' };
}
