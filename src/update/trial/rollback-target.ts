import { UpdateError } from '../errors.ts';
import type { UpdateState } from '../journal/state.ts';
import type { SlotName } from '../ports.ts';

/**
 * Throws `no-previous-version` if that can be told from the journal alone. `slot`: where a rollback would lead;
 * undefined: this gateway has no slots.
 */
export function requireRollbackTarget(
  slot: SlotName | undefined,
  { slots, beforeBoards }: Pick<UpdateState, 'slots'> & Partial<Pick<UpdateState, 'beforeBoards'>>,
): void {
  if (beforeBoards !== undefined) return;
  if (slot === undefined) {
    const advice = 'agent status shows what runs';
    throw new UpdateError('no-previous-version', 'no update has changed anything here that could go back', {
      advice,
    });
  }
  if (slots[slot].seen !== undefined) return;
  throw new UpdateError('no-previous-version', `slot ${slot} was never seen to run with what it holds now`);
}
