import type { OnEvent, OperationOutcome } from '../../control/events.ts';
import type { Wiring } from '../wiring/wiring.ts';

/** The work of one round, with one wiring and one outcome. */
type RoundWork = (wiring: Wiring, onEvent: OnEvent, signal: AbortSignal) => Promise<OperationOutcome>;

/** The cycle at the start: completes or undoes an interrupted update. */
export const runRecovery: RoundWork = async (wiring, onEvent, signal) => {
  const { updater, journal, boardRoom } = wiring;
  const version = journal.state.installed?.version.name ?? 'the running version';
  const settled = await updater?.settle(onEvent, signal);
  await boardRoom.recover(onEvent, signal);
  return settled === undefined || settled.kind === 'settled'
    ? { kind: 'up-to-date', version, isRecovery: true }
    : settled;
};

/** A cycle with a check: recovers, reports, asks the service, and installs. */
export const runUpdateCycle: RoundWork = async (wiring, onEvent, signal) => {
  const { updater, session, boardRoom } = wiring;
  await boardRoom.recover(onEvent, signal);
  const order = { reboot: true, force: false, manual: false };
  const outcome = await updater?.updateNow(order, onEvent, signal);
  if (outcome !== undefined && outcome.kind !== 'up-to-date') return outcome;
  await session.thing(signal); // activates a gateway that follows no version, too
  if (outcome !== undefined) return outcome;
  return { kind: 'up-to-date', version: 'nothing: no target is configured' };
};
