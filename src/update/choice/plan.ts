import { isWithin, timeOfDay } from '../../system/time/daily-window.ts';
import type { DailyWindow } from '../../system/time/daily-window.ts';
import { standsStill } from '../journal/parts/standstill.ts';
import type { UpdateState } from '../journal/state.ts';
import type { Version } from '../ports.ts';
import { hasEnded, inForce } from './quarantine.ts';
import { pauseLeft, triesOf } from './tries.ts';
import { turnPause } from './turns.ts';

export interface Policy {
  /** How often one version may fail in a way that waiting cannot cure before it is held back. */
  readonly attempts: number;
  /** When installing may begin, in minutes of the local day; may cross midnight. */
  readonly window: DailyWindow | undefined;
  /** When the reboot into what was staged may begin; undefined: whenever it is staged, and again within `window`. */
  readonly rebootWindow?: DailyWindow | undefined;
  /** After so long what ended badly may be tried again. */
  readonly quarantineMs: number;
}

export type Plan =
  | { readonly kind: 'install'; readonly version: Version }
  | { readonly kind: 'up-to-date'; readonly version: string }
  | { readonly kind: 'nothing-offered' }
  /** A file that a person installed is what the service calls by this id. */
  | { readonly kind: 'reconcile'; readonly version: Version }
  | { readonly kind: 'held-back'; readonly version: string; readonly code: HoldCode; readonly reason: string };

/** Why nothing is begun now. */
export interface Hold {
  readonly code: HoldCode;
  readonly reason: string;
}

export type HoldCode =
  | 'quarantined'
  | 'attempts-used-up'
  | 'cooling-down'
  | 'outside-window'
  | 'outside-reboot-window'
  | 'metered-link'
  | 'clock-not-set'
  | 'not-now'
  | 'installed-by-hand'
  | 'taking-turns'
  | 'held-by-hand'
  | 'cancelled';

export interface Circumstances {
  readonly policy: Policy;
  /** Wall clock, milliseconds since the epoch; may be wrong. */
  readonly nowMs: number;
  /** Minutes since local midnight; undefined: the clock is not to be trusted. */
  readonly minuteOfDay: number | undefined;
  /** The interface that is the way to the service, if what comes through it costs. */
  readonly meteredLink?: string | undefined;
  /** A person waits for it: no cooling down. */
  readonly manual: boolean;
  /** A person said so: quarantine, attempts and window do not hold back. */
  readonly force: boolean;
}

/** These end after so many looks. */
export const countsLooks: ReadonlySet<HoldCode> = new Set(['cooling-down', 'taking-turns']);

/** What to do about the version that the service offers. Pure. */
export function planUpdate(state: UpdateState, offered: Version | undefined, circumstances: Circumstances): Plan {
  if (offered === undefined) return { kind: 'nothing-offered' };
  const { installed } = state;
  const knownId = installed === undefined ? state.listVersion : installed.version.id;
  if (knownId === offered.id) return { kind: 'up-to-date', version: offered.name };
  if (isNamesake(installed, offered)) return { kind: 'reconcile', version: offered };
  const isForced = circumstances.force || isForcedAttempt(state, offered);
  const hold = isForced ? undefined : reasonToHold(state, offered, circumstances);
  return hold ?? { kind: 'install', version: offered };
}

/** It may be the same: that is found out once. */
function isNamesake(installed: UpdateState['installed'], offered: Version): boolean {
  if (installed === undefined || installed.version.id !== undefined) return false;
  return installed.version.name === offered.name && installed.namesake !== offered.id;
}

/** What a person forced goes on as it was begun. */
function isForcedAttempt({ phase }: UpdateState, offered: Version): boolean {
  return phase.kind === 'staging' && phase.attempt.forced === true && phase.attempt.version.id === offered.id;
}

type HeldBack = Extract<Plan, { kind: 'held-back' }>;

function reasonToHold(state: UpdateState, offered: Version, circumstances: Circumstances): HeldBack | undefined {
  const { nowMs, policy } = circumstances;
  const held: Held = (code, reason) => ({ kind: 'held-back', version: offered.name, code, reason });
  const still = holdOfStandstill(state, nowMs);
  if (still !== undefined) return held(still.code, still.reason);
  if (state.installed?.overrides === offered.id) {
    return held('installed-by-hand', `${state.installed.version.name} was installed by hand instead of it`);
  }
  if (state.cancelled === offered.id && !circumstances.manual) return held('cancelled', 'a person cancelled it');
  const bad = inForce(state, nowMs, policy.quarantineMs).find(({ version }) => version.id === offered.id);
  if (bad !== undefined) return held('quarantined', `it ended badly before: ${bad.reason}`);
  return (
    holdForTries(state, offered, circumstances, held) ??
    holdForTurns(state, offered, circumstances, held) ??
    holdForWindow(circumstances, held) ??
    holdForLink(circumstances, held)
  );
}

type Held = (code: HoldCode, reason: string) => HeldBack;

function holdForTries(
  state: UpdateState,
  offered: Version,
  { policy, nowMs, manual }: Circumstances,
  held: Held,
): HeldBack | undefined {
  const tries = triesOf(state, offered.id);
  if (tries === undefined) return undefined;
  if (tries.gaveUp >= policy.attempts && !hasEnded(tries.since, nowMs, policy.quarantineMs)) {
    return held('attempts-used-up', `it failed ${tries.gaveUp} times${lastReason(state, offered)}`);
  }
  const left = pauseLeft(tries, nowMs);
  if (manual || left === 0) return undefined;
  const { begun, failed } = tries;
  const how = failed === 0 ? `was cut off ${begun} times` : `failed ${failed} times`;
  return held('cooling-down', `it ${how}; ${moreLooks(left)}${lastReason(state, offered)}`);
}

/** Whoever is to blame: a gateway that installs two versions by turns wears itself out. */
function holdForTurns(
  { turns, installed }: UpdateState,
  offered: Version,
  { nowMs, manual }: Circumstances,
  held: Held,
): HeldBack | undefined {
  const left = turnPause(turns, offered, nowMs);
  if (manual || left === 0) return undefined;
  const other = installed?.version.name ?? 'another version';
  return held('taking-turns', `it and ${other} were installed by turns; ${moreLooks(left)}`);
}

/** A look is one of the schedule, or a quarter of an hour where the clock is set. */
function moreLooks(left: number): string {
  return left === 1 ? 'one more look is skipped' : `${left} more looks are skipped`;
}

function holdForWindow({ policy, minuteOfDay }: Circumstances, held: Held): HeldBack | undefined {
  const hold = windowHold(policy.window, minuteOfDay);
  return hold && held(hold.code, hold.reason);
}

function holdForLink({ meteredLink }: Circumstances, held: Held): HeldBack | undefined {
  const hold = meteredHold(meteredLink);
  return hold && held(hold.code, hold.reason);
}

/** Undefined: no person holds anything. */
export function holdOfStandstill({ standstill }: Pick<UpdateState, 'standstill'>, nowMs: number): Hold | undefined {
  const still = standsStill(standstill, nowMs);
  if (still === undefined) return undefined;
  const until = still.until === undefined ? '' : ` until ${still.until}`;
  const why = still.reason === undefined ? '' : ` (${still.reason})`;
  return { code: 'held-by-hand', reason: `a person holds updates${until}${why}; agent resume lifts that` };
}

interface WindowWords {
  readonly name: string;
  readonly deed: string;
  readonly code: HoldCode;
}

const ofInstalling: WindowWords = { name: 'maintenance window', deed: 'installing', code: 'outside-window' };
const ofRebooting: WindowWords = {
  name: 'reboot window',
  deed: 'the reboot into it',
  code: 'outside-reboot-window',
};

/** Undefined: the link costs nothing. */
export function meteredHold(link: string | undefined): Hold | undefined {
  if (link === undefined) return undefined;
  return { code: 'metered-link', reason: `a default route leads through ${link}, which is metered` };
}

/** Undefined: an update may begin now. */
export function windowHold(window: DailyWindow | undefined, minuteOfDay: number | undefined): Hold | undefined {
  return outsideOf(window, minuteOfDay, ofInstalling);
}

/** Undefined: what was staged may be booted now. */
export function rebootHold(window: DailyWindow | undefined, minuteOfDay: number | undefined): Hold | undefined {
  return outsideOf(window, minuteOfDay, ofRebooting);
}

function outsideOf(
  window: DailyWindow | undefined,
  minuteOfDay: number | undefined,
  { name, deed, code }: WindowWords,
): Hold | undefined {
  if (window === undefined) return undefined;
  if (minuteOfDay === undefined) {
    return { code: 'clock-not-set', reason: `the ${name} cannot be known without a clock` };
  }
  if (isWithin(window, minuteOfDay)) return undefined;
  const { fromMinute, toMinute } = window;
  return { code, reason: `${deed} may begin between ${timeOfDay(fromMinute)} and ${timeOfDay(toMinute)}` };
}

/** Another version may have been tried since. */
function lastReason({ lastOutcome }: UpdateState, { name }: Version): string {
  return lastOutcome?.version === name ? `, last: ${lastOutcome.reason}` : '';
}
