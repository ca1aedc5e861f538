import type { Version } from './ports.ts';
import type { Quarantined, UpdateState, VersionRef } from './state.ts';

export interface Policy {
  /** How often one version may fail in a way that waiting cannot cure before it is held back. */
  readonly attempts: number;
  /** When installing may begin, in minutes of the local day; may cross midnight. */
  readonly window: DailyWindow | undefined;
}

export interface DailyWindow {
  readonly fromMinute: number;
  readonly toMinute: number;
}

export type Plan =
  | { readonly kind: 'install'; readonly version: Version }
  | { readonly kind: 'up-to-date'; readonly version: string }
  | { readonly kind: 'nothing-offered' }
  /** A file that a person installed is what the service calls by this id. */
  | { readonly kind: 'reconcile'; readonly version: Version }
  | { readonly kind: 'held-back'; readonly version: string; readonly code: HoldCode; readonly reason: string };

export type HoldCode =
  | 'quarantined'
  | 'attempts-used-up'
  | 'cooling-down'
  | 'outside-window'
  | 'clock-not-set'
  | 'installed-by-hand';

/** Begun and never ended, so that a firmware that kills the agent cannot do so for ever. */
const MAX_BEGUN_PER_ALLOWED_FAILURE = 5;

/** A day, at the default schedule. */
const MAX_SKIPPED_LOOKS = 95;

export interface Circumstances {
  readonly policy: Policy;
  /** Minutes since local midnight; undefined: the clock is not to be trusted. */
  readonly minuteOfDay: number | undefined;
  /** Looks at the service since the last failure. */
  readonly looksSinceFailure: number;
  /** A person waits for it: no cooling down. */
  readonly manual: boolean;
  /** A person said so: quarantine, attempts and window do not hold back. */
  readonly force: boolean;
}

/** What to do about the version that the service offers. Pure. */
export function planUpdate(state: UpdateState, offered: Version | undefined, circumstances: Circumstances): Plan {
  if (offered === undefined) return { kind: 'nothing-offered' };
  const { installed } = state;
  if (installed?.version.id === offered.id) return { kind: 'up-to-date', version: offered.name };
  if (installed !== undefined && installed.version.id === undefined && installed.version.name === offered.name) {
    return { kind: 'reconcile', version: offered };
  }
  const hold = circumstances.force ? undefined : reasonToHold(state, offered, circumstances);
  return hold ?? { kind: 'install', version: offered };
}

type Hold = Extract<Plan, { kind: 'held-back' }>;

function reasonToHold(state: UpdateState, offered: Version, circumstances: Circumstances): Hold | undefined {
  const held: Held = (code, reason) => ({ kind: 'held-back', version: offered.name, code, reason });
  if (state.installed?.overrides === offered.id) {
    return held('installed-by-hand', `${state.installed.version.name} was installed by hand instead of it`);
  }
  const bad = quarantineOf(state, offered);
  if (bad !== undefined) return held('quarantined', `it ended badly before: ${bad.reason}`);
  return holdForTries(state, offered, circumstances, held) ?? holdForWindow(circumstances, held);
}

type Held = (code: HoldCode, reason: string) => Hold;

function holdForTries(
  state: UpdateState,
  offered: Version,
  circumstances: Circumstances,
  held: Held,
): Hold | undefined {
  const { tries } = state;
  if (tries?.versionId !== offered.id) return undefined;
  const { attempts } = circumstances.policy;
  if (tries.gaveUp >= attempts) return held('attempts-used-up', `it failed ${tries.gaveUp} times${lastReason(state)}`);
  if (tries.begun - tries.failed >= attempts * MAX_BEGUN_PER_ALLOWED_FAILURE) {
    return held('attempts-used-up', `it was begun ${tries.begun} times and never came to an end`);
  }
  const looksLeft = looksToSkip(tries.failed) - circumstances.looksSinceFailure;
  if (circumstances.manual || looksLeft <= 0) return undefined;
  return held(
    'cooling-down',
    `it failed ${tries.failed} times; ${looksLeft} more looks are skipped${lastReason(state)}`,
  );
}

/** 0, 1, 3, 7 … looks are skipped after that many failures in a row. */
function looksToSkip(failures: number): number {
  return failures === 0 ? 0 : Math.min(2 ** (failures - 1) - 1, MAX_SKIPPED_LOOKS);
}

function holdForWindow({ policy, minuteOfDay }: Circumstances, held: Held): Hold | undefined {
  if (policy.window === undefined) return undefined;
  if (minuteOfDay === undefined) return held('clock-not-set', 'the maintenance window cannot be known without a clock');
  if (isWithin(policy.window, minuteOfDay)) return undefined;
  const { fromMinute, toMinute } = policy.window;
  return held('outside-window', `installing may begin between ${timeOfDay(fromMinute)} and ${timeOfDay(toMinute)}`);
}

function quarantineOf(state: UpdateState, version: VersionRef): Quarantined | undefined {
  return state.quarantine.find((entry) => entry.version.id !== undefined && entry.version.id === version.id);
}

function lastReason(state: UpdateState): string {
  return state.lastOutcome === undefined ? '' : `, last: ${state.lastOutcome.reason}`;
}

export function isWithin(window: DailyWindow, minute: number): boolean {
  const { fromMinute, toMinute } = window;
  if (fromMinute <= toMinute) return minute >= fromMinute && minute < toMinute;
  return minute >= fromMinute || minute < toMinute;
}

function timeOfDay(minute: number): string {
  const hours = String(Math.floor(minute / 60)).padStart(2, '0');
  return `${hours}:${String(minute % 60).padStart(2, '0')}`;
}
