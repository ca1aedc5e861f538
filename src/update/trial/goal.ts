import { UpdateError } from '../errors.ts';
import type { UpdateState } from '../journal/state.ts';
import type { SlotName } from '../ports.ts';

/** Throws `nothing-to-go-back-to` if that can be told from the journal alone. */
export function requireGoal(
  slot: SlotName,
  { slots, beforeBoards }: Pick<UpdateState, 'slots'> & Partial<Pick<UpdateState, 'beforeBoards'>>,
): void {
  if (beforeBoards !== undefined || slots[slot].seen !== undefined) return;
  throw new UpdateError('nothing-to-go-back-to', `slot ${slot} was never seen to run with what it holds now`);
}
