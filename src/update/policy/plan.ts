import type { DeferralCode } from '../../control/gateway-state.ts';
import { isWithin, timeOfDay } from '../../system/time/daily-window.ts';
import type { DailyWindow } from '../../system/time/daily-window.ts';
import { activeHold } from '../journal/state.ts';
import type { UpdateState, VersionEntry, VersionRef } from '../journal/state.ts';
import type { Version } from '../ports.ts';
import { flapDelayMs } from './holds/flap-damping.ts';
import { pauseLeft } from './holds/pauses.ts';
import { entryOf, activeEntries, isExhausted, isFull } from './holds/versions.ts';
import type { Firmware } from './holds/versions.ts';

export interface Policy {
  /** A version is held back after so many failures that waiting cannot cure. */
  readonly attempts: number;
  /** When an installation may begin, in minutes of the local day. May cross midnight. */
  readonly window: DailyWindow | undefined;
  /** When the reboot into a staged firmware may begin; undefined: as soon as it is staged, or later within `window`. */
  readonly rebootWindow?: DailyWindow | undefined;
  /** The time after which a release that failed its trial may be tried again; undefined: after `agent unblock` only. */
  readonly quarantineMs?: number | undefined;
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

/** An attempt has to wait. It remains, and continues later. */
export class AttemptDeferred extends Error {
  readonly hold: Deferral;

  constructor(hold: Deferral) {
    super(hold.reason);
    this.hold = hold;
  }
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

/** The first reason to wait, in this order. */
function reasonToHold(state: UpdateState, offered: Version, circumstances: PlanInput): HeldBack | undefined {
  const { nowMs, minuteOfDay, policy, configTrouble, meteredLink } = circumstances;
  const hold =
    holdOfStandstill(state, nowMs) ??
    overriddenHold(state, offered) ??
    quarantineHold(state, offered, circumstances) ??
    configHold(configTrouble) ??
    holdOfVersion(state, { version: offered }, circumstances) ??
    windowHold(policy.window, minuteOfDay) ??
    meteredHold(meteredLink);
  return hold && { kind: 'deferred', version: offered.name, ...hold };
}

/** The hold of a version that a person replaced; undefined: nobody did. */
function overriddenHold({ installed }: UpdateState, offered: Version): Deferral | undefined {
  if (installed?.overrides !== offered.id) return undefined;
  const { name } = installed.version;
  const how =
    installed.wentBack === true ? `a person went back to ${name}` : `${name} was installed by hand instead of it`;
  return { code: 'manual-override', reason: how };
}

function quarantineHold(
  state: UpdateState,
  offered: Version,
  { nowMs, policy: { quarantineMs } }: VersionCircumstances,
): Deferral | undefined {
  const entry = entryOf(state.versions, { version: offered });
  const bad = activeEntries(state, nowMs, quarantineMs).find((known) => known === entry)?.bad;
  if (bad !== undefined) return { code: 'quarantined', reason: `it ended badly before: ${bad.reason}` };
  if (!isFull(state, entry, nowMs, quarantineMs)) return undefined;
  return {
    code: 'quarantined',
    reason: 'as many versions as can be remembered are held back; agent unblock makes room',
  };
}

type VersionCircumstances = Pick<PlanInput, 'nowMs' | 'manual'> & {
  readonly policy: Pick<Policy, 'attempts' | 'quarantineMs'>;
};

/**
 * Why a firmware has to wait because of how it and others ended before; undefined: it need not. The service cannot
 * evade this by a new id: it is asked again when the header was read, and the digest is known.
 */
export function holdOfVersion(
  state: UpdateState,
  firmware: Firmware,
  { policy, nowMs, manual }: VersionCircumstances,
): Deferral | undefined {
  const entry = entryOf(state.versions, firmware);
  const last = lastReason(state, firmware.version);
  const usedUp = attemptsHold(entry, policy, nowMs, last);
  if (manual) return usedUp;
  if (entry?.cancelled === true) return { code: 'cancelled', reason: 'a person cancelled it' };
  return usedUp ?? pauseHold(entry, nowMs, last) ?? turnsHold(state, entry?.digest ?? firmware.digest, nowMs);
}

function attemptsHold(
  entry: VersionEntry | undefined,
  { attempts, quarantineMs }: VersionCircumstances['policy'],
  nowMs: number,
  last: string,
): Deferral | undefined {
  if (entry === undefined || !isExhausted(entry, attempts, nowMs, quarantineMs)) return undefined;
  return { code: 'attempts-exhausted', reason: `it failed ${entry.gaveUp} times${last}` };
}

function pauseHold(entry: VersionEntry | undefined, nowMs: number, last: string): Deferral | undefined {
  const left = entry === undefined ? 0 : pauseLeft(entry, nowMs);
  if (entry === undefined || left === 0) return undefined;
  const { begun, failed } = entry;
  const how = failed === 0 ? `was cut off ${begun} times` : `failed ${failed} times`;
  return { code: 'retry-backoff', reason: `it ${how}; ${moreLooks(left)}${last}` };
}

/**
 * Holds back versions that replace each other again and again, whoever is to blame: that would wear out the gateway.
 */
function turnsHold({ turns, installed }: UpdateState, digest: string | undefined, nowMs: number): Deferral | undefined {
  const left = flapDelayMs(turns, digest, nowMs);
  if (left === 0) return undefined;
  const other = installed?.version.name ?? 'another version';
  return { code: 'flapping', reason: `it and ${other} were installed by turns; ${moreLooks(left)}` };
}

/** A look is one of the schedule or, if the clock is set, a quarter of an hour. */
function moreLooks(left: number): string {
  return left === 1 ? 'one more look is skipped' : `${left} more looks are skipped`;
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
function lastReason({ lastOutcome }: UpdateState, { name }: VersionRef): string {
  return lastOutcome?.version === name ? `, last: ${lastOutcome.reason}` : '';
}
