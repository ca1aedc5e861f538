import type { EventOf } from './events.ts';
import type { Installed, UpdateState } from './state.ts';

/** What the service calls what is installed. */

/** What a person installs stays until the service names something else than it does now, or does at the next look. */
export function overriddenBy({ named, installed }: UpdateState): Pick<Installed, 'overrides' | 'byHand'> {
  const overrides = named?.id ?? installed?.overrides ?? installed?.version.id;
  return named === undefined && overrides === undefined ? { byHand: true } : { overrides };
}

export function nameVersion(state: UpdateState, { versionId }: EventOf<'named'>): UpdateState {
  const { installed } = state;
  const isUnknown = installed?.byHand === true;
  const known = isUnknown ? { ...installed, byHand: undefined, overrides: versionId } : installed;
  return { ...state, named: { id: versionId }, installed: known };
}

/** What a person installed from a file turns out to be the version that the service names. */
export function reconcile(state: UpdateState, { versionId, switchTo }: EventOf<'reconciled'>): UpdateState {
  if (state.installed === undefined) return state;
  const version = { ...state.installed.version, id: versionId };
  const installed = { ...state.installed, version, overrides: undefined };
  return { ...state, installed, pendingSwitch: switchTo ? versionId : state.pendingSwitch };
}
