import assert from 'node:assert';

import type { EventOf } from '../journal/events.ts';
import type { Figures, UpdateState } from '../journal/state.ts';
import { ownVersion } from '../journal/transitions/naming.ts';
import { withOutcomes } from '../journal/transitions/reports.ts';
import type { InstallOutcome } from '../outcome.ts';
import type { StagedFirmware } from '../ports/incoming.ts';
import { clear } from './holds/versions.ts';
import { isoTime } from './install-request.ts';
import type { InstallRequest, UpdatePorts } from './install-request.ts';

/**
 * Ends the attempt of a list of keys and revocations that is in effect. What runs stays, under the id that the service
 * gave the list.
 */
export async function endAppliedList(
  { header }: StagedFirmware,
  { version }: InstallRequest,
  { journal, clock, log, listInEffect }: UpdatePorts,
  figures: Figures,
): Promise<InstallOutcome> {
  const name = header.name ?? version.name;
  const number = await listInEffect?.();
  await journal.append({ type: 'trust-list-applied', name, number, at: isoTime(clock), figures });
  log.info({ list: name, number, signedBy: header.signedBy }, 'a list of keys and revocations took effect');
  return { kind: 'installed', version: name };
}

/** The state after a list was taken. Pure. */
export function applyTrustList(
  state: UpdateState,
  { at, name, number: list }: EventOf<'trust-list-applied'>,
): UpdateState {
  const { phase, installed } = state;
  assert(phase.kind === 'staging', `no list can be taken in phase ${phase.kind}`);
  const { id: attempt, version, by } = phase.attempt;
  const reason = 'a list of keys and revocations took effect';
  const ended = { attempt, version: name, outcome: 'installed', code: 'ok', reason, at } as const;
  const { reports, lastOutcome } = withOutcomes(state, [ended]);
  // A list is no firmware, and does not make up for one that was rolled back.
  const last =
    state.lastOutcome?.outcome === 'rolled-back'
      ? state.lastOutcome
      : lastOutcome && { ...lastOutcome, trustList: list };
  const next: UpdateState = { ...state, phase: { kind: 'idle' }, reports, lastOutcome: last };
  if (by !== 'service' || version.id === undefined) return next;
  const { id } = version;
  const marks = { overrides: undefined, byHand: undefined, namesake: undefined };
  const underList = installed && { id, name, ownId: ownVersion(installed, state).id };
  const known = installed && { ...installed, version: { id, name: installed.version.name }, ...marks, underList };
  return { ...next, installed: known, listVersion: id, pendingSwitch: id, ...clear(state, { version }) };
}
