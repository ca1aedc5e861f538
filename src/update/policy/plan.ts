import type { DeferralCode } from '../../control/gateway-state.ts';
import { isWithin, timeOfDay } from '../../system/time/daily-window.ts';
import type { DailyWindow } from '../../system/time/daily-window.ts';
import { activeHold } from '../journal/parts/standstill.ts';
import type { UpdateState } from '../journal/state.ts';
import type { Version } from '../ports.ts';
import { flapDelayMs } from './holds/flap-damping.ts';
import { hasEnded, activeEntries } from './holds/quarantine.ts';
import { pauseLeft, triesOf } from './holds/retry-backoff.ts';

export interface Policy {
  /** A version is held back after so many failures that waiting cannot cure. */
  readonly attempts: number;
  /** When an installation may begin, in minutes of the local day. May cross midnight. */
  readonly window: DailyWindow | undefined;
  /** When the reboot into a staged firmware may begin; undefined: as soon as it is staged, or later within `window`. */
  readonly rebootWindow?: DailyWindow | undefined;
  /** The time after which a failed version may be tried again. */
  readonly quarantineMs: number;
}

export type Plan =
  | { readonly kind: 'install'; readonly version: Version }
  | { readonly kind: 'up-to-date'; readonly version: string }
  | { readonly kind: 'nothing-offered' }
  /** The file that a person installed is the version that the service calls by this id. */
  | { readonly kind: 'reconcile'; readonly version: Version }
  | { readonly kind: 'deferred'; readonly version: string; readonly code: DeferralCode; readonly reason: string };

/** Why nothing is begun now. */
export interface Deferral {
  readonly code: DeferralCode;
  readonly reason: string;
}

export interface PlanInput {
  readonly policy: Policy;
  /** The wall clock in milliseconds since the epoch, which may be wrong. */
  readonly nowMs: number;
  /** Minutes since local midnight; undefined: the clock cannot be trusted. */
  readonly minuteOfDay: number | undefined;
  /** The metered interface that is the way to the service; undefined: the way is not metered. */
  readonly meteredLink?: string | undefined;
  /** Why the next start of the agent would refuse its configuration; undefined: it would not. */
  readonly configTrouble?: string | undefined;
  /** A person waits, so no pause after a failure applies. */
  readonly manual: boolean;
  /** A person forces it: quarantine, attempts and windows do not count. */
  readonly force: boolean;
}

/** Holds that end after a number of looks. */
export const countsChecks: ReadonlySet<DeferralCode> = new Set(['retry-backoff', 'flapping']);

/** Decides what to do about the version that the service offers. Pure. */
export function planUpdate(state: UpdateState, offered: Version | undefined, circumstances: PlanInput): Plan {
  if (offered === undefined) return { kind: 'nothing-offered' };
  const { installed } = state;
  const knownId = installed === undefined ? state.listVersion : installed.version.id;
  if (knownId === offered.id) return { kind: 'up-to-date', version: offered.name };
  if (hasSameName(installed, offered)) return { kind: 'reconcile', version: offered };
  const isForced = circumstances.force || isForcedAttempt(state, offered);
  const hold = isForced ? undefined : reasonToHold(state, offered, circumstances);
  return hold ?? { kind: 'install', version: offered };
}

/**
 * Whether a firmware from a file has the name of the offered version, so that it may be the same. That is determined
 * once.
 */
function hasSameName(installed: UpdateState['installed'], offered: Version): boolean {
  if (installed === undefined || installed.version.id !== undefined) return false;
  return installed.version.name === offered.name && installed.namesake !== offered.id;
}

/** Whether a person forced this attempt, which then continues as it began. */
function isForcedAttempt({ phase }: UpdateState, offered: Version): boolean {
  return phase.kind === 'staging' && phase.attempt.forced === true && phase.attempt.version.id === offered.id;
}

type HeldBack = Extract<Plan, { kind: 'deferred' }>;

function reasonToHold(state: UpdateState, offered: Version, circumstances: PlanInput): HeldBack | undefined {
  const { nowMs, policy } = circumstances;
  const held: Held = (code, reason) => ({ kind: 'deferred', version: offered.name, code, reason });
  const still = holdOfStandstill(state, nowMs);
  if (still !== undefined) return held(still.code, still.reason);
  if (state.installed?.overrides === offered.id) {
    const { version, wentBack } = state.installed;
    const how =
      wentBack === true
        ? `a person went back to ${version.name}`
        : `${version.name} was installed by hand instead of it`;
    return held('manual-override', how);
  }
  if (state.cancelled === offered.id && !circumstances.manual) return held('cancelled', 'a person cancelled it');
  const bad = activeEntries(state, nowMs, policy.quarantineMs).find(({ version }) => version.id === offered.id);
  if (bad !== undefined) return held('quarantined', `it ended badly before: ${bad.reason}`);
  return (
    holdForConfig(circumstances, held) ??
    holdForTries(state, offered, circumstances, held) ??
    holdForTurns(state, offered, circumstances, held) ??
    holdForWindow(circumstances, held) ??
    holdForLink(circumstances, held)
  );
}

type Held = (code: DeferralCode, reason: string) => HeldBack;

function holdForTries(
  state: UpdateState,
  offered: Version,
  { policy, nowMs, manual }: PlanInput,
  held: Held,
): HeldBack | undefined {
  const tries = triesOf(state, offered.id);
  if (tries === undefined) return undefined;
  if (tries.gaveUp >= policy.attempts && !hasEnded(tries.since, nowMs, policy.quarantineMs)) {
    return held('attempts-exhausted', `it failed ${tries.gaveUp} times${lastReason(state, offered)}`);
  }
  const left = pauseLeft(tries, nowMs);
  if (manual || left === 0) return undefined;
  const { begun, failed } = tries;
  const how = failed === 0 ? `was cut off ${begun} times` : `failed ${failed} times`;
  return held('retry-backoff', `it ${how}; ${moreLooks(left)}${lastReason(state, offered)}`);
}

/**
 * Holds back versions that replace each other again and again, whoever is to blame: that would wear out the gateway.
 */
function holdForTurns(
  { turns, installed }: UpdateState,
  offered: Version,
  { nowMs, manual }: PlanInput,
  held: Held,
): HeldBack | undefined {
  const left = flapDelayMs(turns, offered, nowMs);
  if (manual || left === 0) return undefined;
  const other = installed?.version.name ?? 'another version';
  return held('flapping', `it and ${other} were installed by turns; ${moreLooks(left)}`);
}

/** A look is one of the schedule or, if the clock is set, a quarter of an hour. */
function moreLooks(left: number): string {
  return left === 1 ? 'one more look is skipped' : `${left} more looks are skipped`;
}

function holdForWindow({ policy, minuteOfDay }: PlanInput, held: Held): HeldBack | undefined {
  const hold = windowHold(policy.window, minuteOfDay);
  return hold && held(hold.code, hold.reason);
}

function holdForConfig({ configTrouble }: PlanInput, held: Held): HeldBack | undefined {
  const hold = configHold(configTrouble);
  return hold && held(hold.code, hold.reason);
}

function holdForLink({ meteredLink }: PlanInput, held: Held): HeldBack | undefined {
  const hold = meteredHold(meteredLink);
  return hold && held(hold.code, hold.reason);
}

/** The hold by a person; undefined: there is none. */
export function holdOfStandstill({ standstill }: Pick<UpdateState, 'standstill'>, nowMs: number): Deferral | undefined {
  const still = activeHold(standstill, nowMs);
  if (still === undefined) return undefined;
  const until = still.until === undefined ? '' : ` until ${still.until}`;
  const why = still.reason === undefined ? '' : ` (${still.reason})`;
  return { code: 'on-hold', reason: `a person holds updates${until}${why}; agent resume lifts that` };
}

interface WindowWords {
  readonly name: string;
  readonly deed: string;
  readonly code: DeferralCode;
}

const ofInstalling: WindowWords = { name: 'maintenance window', deed: 'installing', code: 'outside-window' };
const ofRebooting: WindowWords = {
  name: 'reboot window',
  deed: 'the reboot into it',
  code: 'outside-reboot-window',
};

/** The hold of a metered link; undefined: the link is not metered. */
export function meteredHold(link: string | undefined): Deferral | undefined {
  if (link === undefined) return undefined;
  return { code: 'metered-connection', reason: `a default route leads through ${link}, which is metered` };
}

/** The hold of a configuration with which no trial could be judged; undefined: it can be used. */
export function configHold(trouble: string | undefined): Deferral | undefined {
  return trouble === undefined ? undefined : { code: 'config-unusable', reason: trouble };
}

/** The hold of the window for installing; undefined: an update may begin now. */
export function windowHold(window: DailyWindow | undefined, minuteOfDay: number | undefined): Deferral | undefined {
  return outsideOf(window, minuteOfDay, ofInstalling);
}

/** The hold of the window for reboots; undefined: what was staged may be booted now. */
export function rebootHold(window: DailyWindow | undefined, minuteOfDay: number | undefined): Deferral | undefined {
  return outsideOf(window, minuteOfDay, ofRebooting);
}

function outsideOf(
  window: DailyWindow | undefined,
  minuteOfDay: number | undefined,
  { name, deed, code }: WindowWords,
): Deferral | undefined {
  if (window === undefined) return undefined;
  if (minuteOfDay === undefined) {
    return { code: 'clock-unsynchronized', reason: `the ${name} cannot be known without a clock` };
  }
  if (isWithin(window, minuteOfDay)) return undefined;
  const { fromMinute, toMinute } = window;
  return { code, reason: `${deed} may begin between ${timeOfDay(fromMinute)} and ${timeOfDay(toMinute)}` };
}

/** The reason of the last outcome, if it was that of this version. */
function lastReason({ lastOutcome }: UpdateState, { name }: Version): string {
  return lastOutcome?.version === name ? `, last: ${lastOutcome.reason}` : '';
}
