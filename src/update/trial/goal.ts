import { UpdateError } from '../errors.ts';
import type { UpdateState } from '../journal/state.ts';
import type { SlotName } from '../ports.ts';

/**
 * Throws `nothing-to-go-back-to` if that can be told from the journal alone. `slot`: where a rollback would lead;
 * undefined: this gateway has no slots.
 */
export function requireGoal(
  slot: SlotName | undefined,
  { slots, beforeBoards }: Pick<UpdateState, 'slots'> & Partial<Pick<UpdateState, 'beforeBoards'>>,
): void {
  if (beforeBoards !== undefined) return;
  if (slot === undefined) {
    const advice = 'agent status shows what runs';
    throw new UpdateError('nothing-to-go-back-to', 'no update has changed anything here that could go back', {
      advice,
    });
  }
  if (slots[slot].seen !== undefined) return;
  throw new UpdateError('nothing-to-go-back-to', `slot ${slot} was never seen to run with what it holds now`);
}
