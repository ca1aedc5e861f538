import type { EventOf } from '../events.ts';
import type { Installed, UpdateState, VersionRef } from '../state.ts';

/** The names under which the service knows what is installed. */

/**
 * The installed firmware under its own id. The service may know it by the id of a list of keys and revocations, which
 * is no firmware.
 */
export function ownVersion(
  { version, underList }: Installed,
  { listVersion }: Pick<UpdateState, 'listVersion'> = {},
): VersionRef {
  const { id, name } = version;
  if (id !== undefined && id === underList?.id) return { id: underList.ownId, name };
  return id === listVersion ? { name } : version;
}

/** The name or id of the running version, if the service does not know yet that it runs. */
export function nameToSwitchTo(state: UpdateState): string | undefined {
  const { installed, pendingSwitch } = state;
  if (pendingSwitch === installed?.underList?.id) return installed?.underList?.name;
  return pendingSwitch === installed?.version.id ? installed?.version.name : pendingSwitch;
}

/**
 * What a firmware from a person overrides: it stays until the service names something else than now, or than at the
 * next look.
 */
export function overriddenBy({ named, installed }: UpdateState): Pick<Installed, 'overrides' | 'byHand'> {
  const overrides = named?.id ?? installed?.overrides ?? installed?.version.id;
  return named === undefined && overrides === undefined ? { byHand: true } : { overrides };
}

export function nameVersion(state: UpdateState, { versionId }: EventOf<'offer-changed'>): UpdateState {
  const { installed } = state;
  const isUnknown = installed?.byHand === true;
  const known = isUnknown ? { ...installed, byHand: undefined, overrides: versionId } : installed;
  return { ...state, named: { id: versionId }, installed: known };
}

/** Notes that a file installed by a person is the version that the service names. */
export function reconcile(state: UpdateState, { versionId, switchTo }: EventOf<'reconciled'>): UpdateState {
  if (state.installed === undefined) return state;
  const version = { ...state.installed.version, id: versionId };
  const installed = { ...state.installed, version, overrides: undefined };
  return { ...state, installed, pendingSwitch: switchTo ? versionId : state.pendingSwitch };
}
