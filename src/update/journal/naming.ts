import assert from 'node:assert';

import { inPhase, withEnd, withoutUnfit } from './endings.ts';
import type { EventOf, Installed, UpdateState, VersionRef } from './state.ts';
import { clear } from './versions.ts';

/** Returns the installed release under its own ID. The service may know it by the ID of a trust list. */
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
 * Returns the version that a manually installed file overrides: the file stays until the service offers another one
 * than now, or than at the next check.
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

/** Records that a manually installed file is the version that the service offers. */
export function reconcile(state: UpdateState, { versionId, switchTo }: EventOf<'reconciled'>): UpdateState {
  if (state.installed === undefined) return state;
  const version = { ...state.installed.version, id: versionId };
  const installed = { ...state.installed, version, overrides: undefined };
  return { ...state, installed, pendingSwitch: switchTo ? versionId : state.pendingSwitch };
}

/** Records that the release was already installed. A manual file does not remove the service's name for it. */
export function findInstalled(state: UpdateState, { at }: EventOf<'found-installed'>): UpdateState {
  const { attempt } = inPhase(state, 'staging');
  assert(state.installed !== undefined, 'nothing is installed');
  const isNamed = attempt.by === 'service';
  const { id } = attempt.version;
  const name = state.installed.signedBy === undefined ? attempt.version.name : state.installed.version.name;
  const named = { version: { id, name }, overrides: undefined, byHand: undefined, namesake: undefined };
  const installed = { ...state.installed, wentBack: undefined, ...(isNamed ? named : overriddenBy(state)) };
  const pendingSwitch = isNamed ? id : state.pendingSwitch;
  const cleared = isNamed ? clear(state, attempt) : undefined;
  const unfit = isNamed ? withoutUnfit(state.unfit) : state.unfit;
  const next: UpdateState = { ...state, ...cleared, phase: { kind: 'idle' }, installed, pendingSwitch, unfit };
  const end = { outcome: 'installed', code: 'ok', reason: 'it was installed already', at } as const;
  return withEnd(next, { id: attempt.id, version: installed.version }, end);
}

/** The state after a trust list was applied. Pure. */
export function applyTrustList(
  state: UpdateState,
  { at, name, number: list }: EventOf<'trust-list-applied'>,
): UpdateState {
  const { installed } = state;
  const { id: attempt, version, by } = inPhase(state, 'staging').attempt;
  const end = { outcome: 'installed', code: 'ok', reason: 'the trust list took effect', at } as const;
  const { reports, lastOutcome } = withEnd(state, { id: attempt, version: { name } }, end);
  // A trust list does not make up for a release that was rolled back.
  const last =
    state.lastOutcome?.outcome === 'rolled-back'
      ? state.lastOutcome
      : lastOutcome && { ...lastOutcome, trustList: list };
  const next: UpdateState = { ...state, phase: { kind: 'idle' }, reports, lastOutcome: last };
  if (by !== 'service' || version.id === undefined) return next;
  const { id } = version;
  const underList = installed && { id, name: version.name, ownId: ownVersion(installed, state).id };
  const known = installed && {
    ...installed,
    version: { id, name: installed.version.name },
    namesake: undefined,
    underList,
  };
  return { ...next, installed: known, listVersion: id, pendingSwitch: id, ...clear(state, { version }) };
}
