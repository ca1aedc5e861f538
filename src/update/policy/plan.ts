import type { DailyWindow } from '../../system/time/daily-window.ts';
import type { UpdateState, VersionRef } from '../journal/state.ts';
import { entryOf } from '../journal/versions.ts';
import type { Deferred } from '../outcome.ts';
import type { Version } from '../ports.ts';
import { listNumber } from './choose.ts';
import { mayTry } from './may-try.ts';
import type { Facts, GatewayFacts, Limits } from './may-try.ts';

export interface Policy extends Limits {
  /** When an installation may begin, in minutes of the local day. May cross midnight. */
  readonly window: DailyWindow | undefined;
  /** When the reboot into a staged update may begin. If omitted: once it is staged, or later within `window`. */
  readonly rebootWindow?: DailyWindow | undefined;
}

export interface InstallPlan {
  readonly kind: 'install';
  readonly version: Version;
  /** By its name it is a trust list, which waits for no deferral and no consent. */
  readonly trustList?: true;
  /** Set after a failed attempt: the number of failures that count, and the number of attempts that are permitted. */
  readonly retry?: { readonly gaveUp: number; readonly attempts: number };
}

export type Plan =
  | InstallPlan
  | { readonly kind: 'up-to-date'; readonly version: string; readonly trustList?: true }
  | { readonly kind: 'nothing-offered' }
  /** The file that an operator installed is the version that the service calls by this id. */
  | { readonly kind: 'reconcile'; readonly version: Version }
  | Deferred;

export interface PlanInput extends GatewayFacts {
  readonly policy: Policy;
  /** An operator waits, so no pause after a failure applies. */
  readonly manual: boolean;
  /** An operator forces it: nothing defers it. */
  readonly force: boolean;
}

/** Decides what to do about the version that the service offers. Pure. */
export function planUpdate(state: UpdateState, offered: Version | undefined, input: PlanInput): Plan {
  if (offered === undefined) return { kind: 'nothing-offered' };
  const { installed, standstill } = state;
  if (isCurrent(state, offered))
    return { kind: 'up-to-date', version: offered.name, ...(state.listVersion === offered.id && { trustList: true }) };
  if (hasSameName(installed, offered)) return { kind: 'reconcile', version: offered };
  const { force, policy: limits, manual, ...facts } = input;
  const isList = listNumber(offered.name) !== undefined;
  const hold = { standstill, nowMs: input.nowMs, isList };
  const full: Facts = {
    ...facts,
    ...hold,
    release: { version: offered, state, limits, nowMs: input.nowMs, manual },
    window: limits.window,
    rebootWindow: undefined, // it defers the reboot alone
  };
  const deferral = force ? undefined : mayTry(isForcedAttempt(state, offered) ? hold : full);
  if (deferral !== undefined) return { kind: 'deferred', version: offered.name, ...deferral };
  return { kind: 'install', version: offered, ...(isList && { trustList: true }), ...retryOf(state, offered, limits) };
}

function retryOf({ versions }: UpdateState, version: Version, { attempts }: Limits): Pick<InstallPlan, 'retry'> {
  const { failed = 0, gaveUp = 0 } = entryOf(versions, { version }) ?? {};
  return failed === 0 ? {} : { retry: { gaveUp, attempts } };
}

/** True if the service offers the running version, or the trust list that took effect last. */
function isCurrent({ installed, listVersion }: UpdateState, offered: Version): boolean {
  if (installed === undefined) return listVersion === offered.id;
  const { version, underList } = installed;
  const isReused = underList?.id === offered.id && underList.name !== offered.name; // now it is a release
  return version.id === offered.id && !isReused;
}

/** True if firmware from a file has the name of the offered version, so that it may be the same. This is checked once. */
function hasSameName(installed: UpdateState['installed'], offered: Version): boolean {
  if (installed === undefined || installed.version.id !== undefined) return false;
  return installed.version.name === offered.name && installed.namesake !== offered.id;
}

/** True if an operator forced this attempt, which then resumes as it started, except during a hold. */
function isForcedAttempt({ phase }: UpdateState, offered: Version): boolean {
  return phase.kind === 'staging' && phase.attempt.forced === true && isSameOffer(phase.attempt.version, offered);
}

/** True if the service offers the same version. An order of an operator for one name does not apply to another. */
export function isSameOffer(attempted: VersionRef, offered: VersionRef): boolean {
  return attempted.id === offered.id && attempted.name === offered.name;
}
