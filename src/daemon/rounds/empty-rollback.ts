import type { OperationRequest } from '../../control/server/operation-runner.ts';
import { otherSlot } from '../../update/slot.ts';
import { requireGoal } from '../../update/trial/goal.ts';
import type { Wiring } from '../wiring/wiring.ts';

/** Throws `nothing-to-go-back-to`, so that no operation is interrupted for a rollback that is impossible. */
export async function refuseEmptyRollback(
  { operation }: Pick<OperationRequest, 'operation'>,
  { journal, bootloader, updater }: Pick<Wiring, 'journal' | 'bootloader' | 'updater'>,
  signal: AbortSignal,
): Promise<void> {
  const { phase } = journal.state;
  if (operation !== 'rollback' || updater === undefined) return;
  if (phase.kind !== 'idle' && phase.kind !== 'staging') return;
  requireGoal(bootloader && otherSlot(await bootloader.bootedSlot(signal)), journal.state);
}
