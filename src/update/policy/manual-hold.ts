import type { InputOf } from '../../control/operations.ts';
import { isPlausible } from '../../system/time/wall-clock.ts';
import { UpdateError } from '../errors.ts';
import { activeHold } from '../journal/state.ts';
import type { ManualHold } from '../journal/state.ts';
import { isoTime } from './install-request.ts';
import type { UpdatePorts } from './install-request.ts';

type Ports = Pick<UpdatePorts, 'journal' | 'clock'>;

/** Starts a hold. Until it ends, only a forced update is installed; a rollback is always possible. */
export async function startHold(
  { durationMs, reason }: InputOf<'hold'>,
  { journal, clock }: Ports,
): Promise<ManualHold> {
  const nowMs = clock.nowMs();
  if (durationMs !== undefined && !isPlausible(nowMs)) {
    throw new UpdateError('hold-needs-clock', 'the clock is not synchronized, so the end of the hold is unknown');
  }
  const until = durationMs === undefined ? undefined : new Date(nowMs + durationMs).toISOString();
  const standstill = { since: isoTime(clock), until, reason };
  await journal.append({ type: 'hold-started', standstill });
  return standstill;
}

/** Ends a hold. Returns false if there was none. */
export async function releaseHold({ journal, clock }: Ports): Promise<boolean> {
  const { standstill } = journal.state;
  if (standstill === undefined) return false;
  await journal.append({ type: 'hold-released' });
  return activeHold(standstill, clock.nowMs()) !== undefined;
}
