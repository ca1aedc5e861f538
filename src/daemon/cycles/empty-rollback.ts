import type { OperationRequest } from '../../control/server/operation-runner.ts';
import { otherSlot } from '../../update/slot.ts';
import { requireRollbackTarget } from '../../update/trial/manual-rollback.ts';
import type { Wiring } from '../wiring/wiring.ts';

/** Throws `no-previous-version`, so that no operation is interrupted for a rollback that is impossible. */
export async function rejectEmptyRollback(
  { operation }: Pick<OperationRequest, 'operation'>,
  { journal, bootloader, updater }: Pick<Wiring, 'journal' | 'bootloader' | 'updater'>,
  signal: AbortSignal,
): Promise<void> {
  const { phase } = journal.state;
  if (operation !== 'rollback' || updater === undefined) return;
  if (phase.kind !== 'idle' && phase.kind !== 'staging') return;
  requireRollbackTarget(bootloader && otherSlot(await bootloader.bootedSlot(signal)), journal.state);
}
