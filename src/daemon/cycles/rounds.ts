import type { OnEvent, OperationOutcome } from '../../control/events.ts';
import type { OperationRequest } from '../../control/server/operation-runner.ts';
import { isAfterBoards } from '../../update/journal/state.ts';
import { otherSlot } from '../../update/slot.ts';
import { requireRollbackTarget } from '../../update/trial/manual-rollback.ts';
import type { Wiring } from '../wiring/wiring.ts';

/** The work of one round, with one wiring and one outcome. */
type RoundWork = (wiring: Wiring, onEvent: OnEvent, signal: AbortSignal) => Promise<OperationOutcome>;

/** The cycle at the start: completes or undoes an interrupted update. */
export const runRecovery: RoundWork = async (wiring, onEvent, signal) => {
  const { updater, journal, boards } = wiring;
  const version = journal.state.installed?.version.name ?? 'the running version';
  const wasLost = journal.state.phase.kind === 'lost';
  const settled = await updater?.settle(onEvent, signal);
  await boards.recover(onEvent, signal);
  if (settled !== undefined && settled.kind !== 'settled') return settled;
  const { phase } = journal.state;
  const reason =
    phase.kind === 'staging'
      ? `the download of ${phase.attempt.version.name} was interrupted; it resumes at a later check`
      : wasLost
        ? 'the journal of updates was damaged: it is unknown whether an update was interrupted'
        : undefined;
  return { kind: 'up-to-date', version, isRecovery: true, reason };
};

/** A cycle with a check: recovers, reports, asks the service, and installs. */
export const runUpdateCycle: RoundWork = async (wiring, onEvent, signal) => {
  const { updater, session, boards } = wiring;
  await boards.recover(onEvent, signal);
  const order = { reboot: true, force: false, manual: false };
  const outcome = await updater?.updateNow(order, onEvent, signal);
  if (outcome !== undefined && outcome.kind !== 'up-to-date') return outcome;
  await session.thing(signal); // activates a gateway that follows no version, too
  if (outcome !== undefined) return outcome;
  return { kind: 'up-to-date', version: 'nothing', reason: 'no target is configured' };
};

/** True if an update or the writing of a board was interrupted, so that it is to be completed soon. */
export async function isHalfDone({ journal, boards }: Pick<Wiring, 'journal' | 'boards'>): Promise<boolean> {
  const { kind } = journal.state.phase;
  return kind === 'trial' || kind === 'rolling-back' || boards.isHalfWritten();
}

/** Throws `no-previous-version`, so that no operation is interrupted for a rollback that is impossible. */
export async function rejectEmptyRollback(
  { operation }: Pick<OperationRequest, 'operation'>,
  { journal, bootloader, updater }: Pick<Wiring, 'journal' | 'bootloader' | 'updater'>,
  signal: AbortSignal,
): Promise<void> {
  const { phase } = journal.state;
  if (operation !== 'rollback' || updater === undefined) return;
  if (phase.kind !== 'idle' && phase.kind !== 'staging') return;
  if (isAfterBoards(journal.state)) return;
  requireRollbackTarget(bootloader && otherSlot(await bootloader.bootedSlot(signal)), journal.state.slots);
}
