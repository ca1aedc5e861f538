import type { OnEvent, OperationOutcome } from '../../control/events.ts';
import { healBoards } from '../boards.ts';
import { tellingOfLists } from '../wiring/trust.ts';
import type { Wiring } from '../wiring/wiring.ts';

/** One round of the daemon: it belongs to one wiring, and ends with one outcome. */
type RoundWork = (wiring: Wiring, onEvent: OnEvent, signal: AbortSignal) => Promise<OperationOutcome>;

/** At start-up: finishes or undoes what was left half done. */
export const settleOnce: RoundWork = async (wiring, onEvent, signal) => {
  const { updater, journal } = wiring;
  const version = journal.state.installed?.version.name ?? 'what runs';
  const settled = await updater?.settle(onEvent, signal);
  await healBoards(wiring, onEvent, signal);
  return settled === undefined || settled.kind === 'settled' ? { kind: 'up-to-date', version } : settled;
};

/** Settles, tells, looks and installs. */
export const updateOnce: RoundWork = async (wiring, onEvent, signal) => {
  const { updater, session, trust } = wiring;
  await healBoards(wiring, onEvent, signal);
  const order = { reboot: true, force: false, manual: false };
  const outcome = updater && (await tellingOfLists(trust, async () => updater.updateNow(order, onEvent, signal)));
  if (outcome !== undefined && outcome.kind !== 'up-to-date') return outcome;
  await session.thing(signal); // what follows nothing is activated all the same
  if (outcome !== undefined) return outcome;
  return { kind: 'up-to-date', version: 'nothing: no target is configured' };
};
