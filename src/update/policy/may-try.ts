import type { DeferralCode } from '../../control/gateway-state.ts';
import { isWithin, timeOfDay } from '../../system/time/daily-window.ts';
import type { DailyWindow } from '../../system/time/daily-window.ts';
import { activeHold } from '../journal/state.ts';
import type { Attempt, ManualHold, UpdateState, VersionEntry } from '../journal/state.ts';
import { entryOf } from '../journal/versions.ts';
import type { Firmware } from '../journal/versions.ts';
import type { Deferral, Deferred } from '../outcome.ts';
import { flapChecksLeft, pauseLeft, isActive, isExhausted, isFull } from './backoff.ts';

/** An attempt has to wait. It remains, and resumes later. */
export class AttemptDeferred extends Error {
  readonly hold: Deferral;

  constructor(hold: Deferral) {
    super(hold.reason);
    this.hold = hold;
  }
}

/** The number of permitted failures of a release, and the time for which it stays blocked after a failed trial. */
export interface Limits {
  readonly attempts: number;
  /** Absent: until an operator unblocks it. */
  readonly quarantineMs?: number | undefined;
}

/** The known facts about a release that may be tried. */
export interface ReleaseFacts extends Firmware {
  readonly state: UpdateState;
  readonly limits: Limits;
  readonly nowMs: number;
  /** An operator waits, so only permanent failures count. */
  readonly manual: boolean;
}

/** The state of the gateway at an update check. The compiler names the code that has to provide a new fact. */
export interface GatewayFacts {
  /** The wall clock in milliseconds since the epoch, which may be wrong. */
  readonly nowMs: number;
  /** Minutes since local midnight; undefined if the clock is not synchronized. */
  readonly minuteOfDay: number | undefined;
  /** The reason why the next start of the agent would reject its configuration. */
  readonly configProblem: string | undefined;
  /** The metered interface that leads to the service. */
  readonly meteredLink: string | undefined;
}

/** Input of the rules. A plan needs all of it; at other steps, a rule whose facts are missing defers nothing. */
export interface Facts extends GatewayFacts {
  readonly standstill: ManualHold | undefined;
  readonly release: ReleaseFacts;
  readonly window: DailyWindow | undefined;
  readonly rebootWindow: DailyWindow | undefined;
  /** A trust list: only its own failures defer it. */
  readonly isList: boolean;
}

/**
 * The consequence for an interrupted staging: it ends, or it resumes after the deferral, perhaps after a number of update
 * checks.
 */
type Consequence = 'ends' | 'resumes' | 'resumes after checks';

/** Returns the reason to wait, or undefined if this rule gives none. */
type Rule = (facts: Partial<Facts>) => string | undefined;

/**
 * Reasons why a release has to wait, read from top to bottom. Status, history, log and `agent explain` show the code.
 */
const rules: Readonly<Record<DeferralCode, readonly [Consequence, Rule]>> = {
  'on-hold': ['resumes', ({ standstill, nowMs }) => describeHold(activeHold(standstill, nowMs))],
  'manual-override': ['ends', ({ release }) => release && overrideReason(release)],
  quarantined: ['ends', ({ release }) => release && blockedReason(release)],
  'config-unusable': ['resumes', ({ configProblem }) => configProblem],
  cancelled: ['ends', ({ release }) => (isCancelled(release) ? 'cancelled by an operator' : undefined)],
  'attempts-exhausted': ['ends', ({ release }) => release && attemptsReason(release)],
  'retry-backoff': ['resumes after checks', ({ release }) => release && backoffReason(release)],
  flapping: ['resumes after checks', ({ release }) => release && flappingReason(release)],
  'clock-unsynchronized': ['resumes', (facts) => clockReason(facts.window ?? facts.rebootWindow, facts.minuteOfDay)],
  'outside-window': ['resumes', ({ window, minuteOfDay }) => outsideOf(window, minuteOfDay, 'installing')],
  'outside-reboot-window': ['resumes', (facts) => outsideOf(facts.rebootWindow, facts.minuteOfDay, 'the reboot')],
  'metered-connection': [
    'resumes',
    ({ meteredLink }) => meteredLink && `a default route uses ${meteredLink}, which is metered`,
  ],
  'hook-deferred': ['resumes', () => undefined], // consent.ts asks the hook
};

const codes = Object.keys(rules).filter((name): name is DeferralCode => Object.hasOwn(rules, name));

/** Returns the first reason to wait, or undefined if it may be tried. Pure. */
export function mayTry(facts: Partial<Facts>): Deferral | undefined {
  for (const code of codes) {
    const reason = facts.isList === true && code !== 'retry-backoff' ? undefined : rules[code][1](facts);
    if (reason !== undefined) return { code, reason };
  }
  return undefined;
}

export function consequenceOf(code: DeferralCode): Consequence {
  return rules[code][0];
}

/** Returns why a staged update has to wait. `isOrdered`: an operator ordered or forced it. */
export type DeferStaged = (isOrdered: boolean) => Deferral | undefined;

/** The outcome of an attempt that has to wait. A rollback never does. */
export function deferredOutcome({ by, forced, version }: Attempt, why: DeferStaged | undefined): Deferred | undefined {
  const deferral = by === 'rollback' ? undefined : why?.(by === 'file' || forced === true);
  return deferral && { kind: 'deferred', version: version.name, ...deferral };
}

function describeHold(hold: ManualHold | undefined): string | undefined {
  if (hold === undefined) return undefined;
  const why = hold.reason === undefined ? '' : ` (${hold.reason})`;
  return `an operator paused updates${why}; agent resume resumes them`;
}

function overrideReason({ state, ...release }: ReleaseFacts): string | undefined {
  const { installed, versions } = state;
  const isNamed = installed?.overrides !== undefined && installed.overrides === release.version.id;
  if (installed === undefined || (!isNamed && entryOf(versions, release)?.overridden !== true)) return undefined;
  const { name } = installed.version;
  return installed.wentBack === true ? `an operator rolled back to ${name}` : `an operator installed ${name} instead`;
}

function blockedReason(release: ReleaseFacts): string | undefined {
  const { state, nowMs, limits } = release;
  const entry = entryOf(state.versions, release);
  if (entry !== undefined && isActive(entry, nowMs, limits.quarantineMs)) return `it is blocked (${entry.bad.reason})`;
  if (!isFull(state, entry, nowMs, limits.quarantineMs)) return undefined;
  return 'the list of blocked versions is full; agent unblock VERSION frees an entry';
}

function isCancelled(release: ReleaseFacts | undefined): boolean {
  return release?.manual === false && entryOf(release.state.versions, release)?.cancelled === true;
}

function attemptsReason(release: ReleaseFacts): string | undefined {
  const { state, nowMs, limits } = release;
  const entry = entryOf(state.versions, release);
  if (entry === undefined || !isExhausted(entry, limits.attempts, nowMs, limits.quarantineMs)) return undefined;
  return `it failed ${entry.gaveUp} times${lastReason(release)}`;
}

function backoffReason(release: ReleaseFacts): string | undefined {
  const entry = waiting(release);
  const left = entry === undefined ? 0 : pauseLeft(entry, release.nowMs);
  if (entry === undefined || left === 0) return undefined;
  const how = entry.failed === 0 ? `was interrupted ${entry.begun} times` : `failed ${entry.failed} times`;
  return `it ${how}; ${moreChecks(left)}${lastReason(release)}`;
}

/** Delays versions that replace each other again and again, whatever the cause: that would wear out the gateway. */
function flappingReason(release: ReleaseFacts): string | undefined {
  const { state, nowMs, manual, digest } = release;
  const known = waiting(release)?.digest ?? digest;
  const left = manual ? 0 : flapChecksLeft(state.turns, known, nowMs);
  if (left === 0) return undefined;
  const other = state.installed?.version.name ?? 'another version';
  return `it and ${other} replaced each other again and again; ${moreChecks(left)}`;
}

/** The entry of a release that no operator waits for. */
function waiting(release: ReleaseFacts): VersionEntry | undefined {
  return release.manual ? undefined : entryOf(release.state.versions, release);
}

/** A check counts as one of the schedule or, if the clock is synchronized, as a quarter of an hour. */
function moreChecks(left: number): string {
  return left === 1 ? 'retried after one more update check' : `retried after ${left} more update checks`;
}

/** Returns the reason of the last outcome, if it was an attempt at this version. */
function lastReason({ state: { lastOutcome }, version }: ReleaseFacts): string {
  return lastOutcome?.version === version.name ? `, last: ${lastOutcome.reason}` : '';
}

function clockReason(window: DailyWindow | undefined, minuteOfDay: number | undefined): string | undefined {
  const isUnknown = window !== undefined && minuteOfDay === undefined;
  return isUnknown ? 'a maintenance window is set, and the clock is not synchronized' : undefined;
}

function outsideOf(
  window: DailyWindow | undefined,
  minuteOfDay: number | undefined,
  step: 'installing' | 'the reboot',
): string | undefined {
  if (window === undefined || minuteOfDay === undefined || isWithin(window, minuteOfDay)) return undefined;
  return `${step} may begin between ${timeOfDay(window.fromMinute)} and ${timeOfDay(window.toMinute)}`;
}
