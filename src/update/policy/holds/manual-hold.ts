import { isPlausible } from '../../../system/time/wall-clock.ts';
import { UpdateError } from '../../errors.ts';
import { activeHold } from '../../journal/state.ts';
import type { ManualHold } from '../../journal/state.ts';
import { isoTime } from '../install-request.ts';
import type { UpdatePorts } from '../install-request.ts';
import { holdOfStandstill } from '../plan.ts';
import type { Deferral } from '../plan.ts';

type Ports = Pick<UpdatePorts, 'journal' | 'clock'>;

export interface StandstillOrder {
  /** Undefined: until a person lifts it. */
  readonly durationMs?: number | undefined;
  readonly reason?: string | undefined;
}

/** Begins a hold. Until its end only what a person forces is installed; a rollback is always possible. */
export async function startHold(
  { durationMs, reason }: StandstillOrder,
  { journal, clock }: Ports,
): Promise<ManualHold> {
  const nowMs = clock.nowMs();
  if (durationMs !== undefined && !isPlausible(nowMs)) {
    throw new UpdateError('hold-needs-clock', 'the clock is not set, so nobody knows when the hold would end');
  }
  const until = durationMs === undefined ? undefined : new Date(nowMs + durationMs).toISOString();
  const standstill = { since: isoTime(clock), until, reason };
  await journal.append({ type: 'hold-started', standstill });
  return standstill;
}

/** Lifts a hold; false: there was none. */
export async function releaseHold({ journal, clock }: Ports): Promise<boolean> {
  const { standstill } = journal.state;
  if (standstill === undefined) return false;
  await journal.append({ type: 'hold-released' });
  return activeHold(standstill, clock.nowMs()) !== undefined;
}

/** The hold for an attempt that was begun; none if a person forced it, or goes back. */
export function holdOfAttempt({ journal, clock }: Ports): Deferral | undefined {
  const { phase } = journal.state;
  const isPersons = 'attempt' in phase && (phase.attempt.forced === true || phase.attempt.by === 'rollback');
  return isPersons ? undefined : holdOfStandstill(journal.state, clock.nowMs());
}
