import { isPlausible } from '../../system/time/wall-clock.ts';
import type { Attempt, ManualHold, UpdateState, VersionEntry, VersionRef } from './state.ts';

/** The number of versions without a trial that are remembered. */
const MAX_FREE = 64;
/** The number of deferred versions at which no other one starts, since it could replace one of them. */
export const MAX_HELD = 64;
/** Leaves room for forced updates. */
const MAX_HELD_AT_ALL = 2 * MAX_HELD;
/** The shortest part of a digest that names a release. */
export const MIN_DIGEST_CHARACTERS = 12;

type Versions = UpdateState['versions'];
type Ledger = Pick<UpdateState, 'versions'>;
export type Blocked = VersionEntry & { readonly bad: NonNullable<VersionEntry['bad']> };

/** Names a release: by its digest, or by the service's id and name until its header was read. */
export interface Firmware {
  readonly version: VersionRef;
  readonly digest?: string | undefined;
}

/** The start of a wait, and the number of update checks since. */
export type Waiting = Pick<VersionEntry, 'since' | 'looks'>;

const untried = { begun: 0, failed: 0, gaveUp: 0 };

/**
 * Finds the entry of a release. The digest decides, since the service may offer the same content under any id. A known
 * id with another name is another offer, about which nothing is known.
 */
export function entryOf(versions: Versions, { version: { id, name }, digest }: Firmware): VersionEntry | undefined {
  const same = digest === undefined ? undefined : versions.find((entry) => entry.digest === digest);
  if (same !== undefined || id === undefined) return same;
  const isOffer = ({ version }: VersionEntry): boolean => version.id === id && version.name === name;
  return versions.find((entry) => isOffer(entry) && (digest === undefined || entry.digest === undefined));
}

/** Changes the entry of a release, and makes it the last one. */
function changed(versions: Versions, firmware: Firmware, change: (entry: VersionEntry) => VersionEntry): Ledger {
  const known = entryOf(versions, firmware) ?? { ...untried, version: firmware.version };
  const entry = change({ ...known, digest: known.digest ?? firmware.digest });
  return { versions: bounded([...versions.filter((other) => other !== known), entry]) };
}

/**
 * Limits what the service can make the journal store. The last entry stays; of those that may be evicted, the ones
 * that count nothing go first, then those that the service made without a valid signature, each oldest first.
 */
function bounded(versions: Versions): Versions {
  const last = versions.slice(-1);
  const others = versions.slice(0, -1).sort((a, b) => rank(a) - rank(b));
  const [free, held] = [others.filter((entry) => !isHeld(entry)), others.filter(isHeld)];
  const kept = new Set([...held.slice(-MAX_HELD_AT_ALL), ...free.slice(-MAX_FREE), ...last]);
  return versions.filter((entry) => kept.has(entry));
}

function rank({ digest, begun, failed, bad }: VersionEntry): number {
  if (bad !== undefined) return 3;
  if (begun + failed === 0) return 0;
  return digest === undefined ? 1 : 2;
}

/** True if the entry must not be evicted: a trial of it failed, or an operator does not want it. */
export function isHeld({ bad, cancelled, overridden, ran }: VersionEntry): boolean {
  return bad !== undefined || cancelled === true || overridden === true || ran === true;
}

/** Counts the beginning of an attempt. */
export function countBegin({ versions }: Ledger, version: VersionRef, at: string) {
  const begin = (entry: VersionEntry): VersionEntry => ({
    ...entry,
    cancelled: undefined,
    begun: entry.begun + 1,
    since: at,
    looks: 0,
  });
  return changed(versions, { version }, begin);
}

/**
 * Records the content of an attempt, whose header was read. The same content under another id keeps its entry; other
 * content under the same id gets a new one, and inherits nothing.
 */
export function identify({ versions }: Ledger, { version, manual }: Attempt, digest: string) {
  const begun = entryOf(versions, { version });
  if (begun === undefined || begun.digest === digest) return { versions };
  const known = versions.find((entry) => entry.digest === digest);
  const isNew = begun.digest === undefined;
  const former = { ...begun, version: { name: begun.version.name }, begun: begun.begun - 1 };
  const own = isNew ? begun : { ...untried, begun: 1, since: begun.since, looks: begun.looks };
  const merged: VersionEntry = { ...own, ...known, version, digest, begun: own.begun + (known?.begun ?? 0) };
  const others = versions.filter((entry) => entry !== begun && entry !== known);
  const entry = { ...merged, cancelled: manual === true ? undefined : merged.cancelled };
  return { versions: bounded([...others, ...(isNew ? [] : [former]), entry]) };
}

/** The attempt got further than before, so the interruptions before were not in vain. */
export function countProgress({ versions }: Ledger, version: VersionRef) {
  return changed(versions, { version }, (entry) => ({ ...entry, begun: entry.failed + 1 }));
}

/** Counts a failure. `counts`: it is permanent. */
export function countFailure({ versions }: Ledger, firmware: Firmware, at: string, counts: boolean) {
  const fail = ({ failed, gaveUp, ...entry }: VersionEntry): VersionEntry => ({
    ...entry,
    failed: failed + 1,
    gaveUp: gaveUp + Number(counts),
    since: at,
    looks: 0,
  });
  return changed(versions, firmware, fail);
}

type Marks = Pick<VersionEntry, 'bad' | 'cancelled' | 'overridden' | 'ran'>;

/** Marks a release of the service. A release without an ID is a file, which is only remembered if it is bad. */
export function mark({ versions }: Ledger, firmware: Firmware, marks: Marks): Ledger {
  const isForgotten = firmware.version.id === undefined && marks.bad === undefined;
  return isForgotten ? { versions } : changed(versions, firmware, (entry) => ({ ...entry, ...marks }));
}

/** Resets the entry of a release that runs. */
export function clear({ versions }: Ledger, firmware: Firmware) {
  return changed(versions, firmware, ({ digest, version }) => ({ ...untried, digest, version }));
}

/** Resets the entries of all releases that may be tried again, since an update succeeded. */
export function clearOthers({ versions }: Ledger): Versions {
  const isKept = ({ bad, digest, gaveUp }: VersionEntry): boolean =>
    bad !== undefined || (digest !== undefined && gaveUp > 0);
  return versions.map((entry) =>
    isKept(entry) ? entry : { ...untried, digest: entry.digest, version: entry.version },
  );
}

/**
 * Restarts the time of each deferral that started while the clock was not set, or showed a time in the future. The
 * installed version and the last result get this time, too.
 */
export function restartDurations(state: UpdateState, at: string): UpdateState {
  const nowMs = Date.parse(at);
  const redated = <T extends string | undefined>(then: T) => (isMisdated(then, nowMs) ? at : then);
  const redate = ({ since, bad, ...entry }: VersionEntry): VersionEntry => ({
    ...entry,
    since: redated(since),
    bad: bad && { ...bad, at: redated(bad.at) },
  });
  const { installed, lastOutcome } = state;
  return {
    ...state,
    installed: installed && { ...installed, at: redated(installed.at) },
    lastOutcome: lastOutcome && { ...lastOutcome, at: redated(lastOutcome.at) },
    versions: state.versions.map(redate),
    standstill: state.standstill && holdAnew(state.standstill, nowMs),
  };
}

/** True if a deferral needs a new date. `nowMs` must come from a clock that is set. */
export function needsDate({ versions, standstill, installed, lastOutcome }: UpdateState, nowMs: number): boolean {
  const dates = [
    standstill?.since,
    installed?.at,
    lastOutcome?.at,
    ...versions.flatMap(({ since, bad }) => [since, bad?.at]),
  ];
  return isPlausible(nowMs) && dates.some((at) => isMisdated(at, nowMs));
}

/** A hold that begins now, with its former duration. */
function holdAnew(held: ManualHold, nowMs: number): ManualHold {
  if (!isMisdated(held.since, nowMs)) return held;
  const lastsMs = held.until === undefined ? undefined : Date.parse(held.until) - Date.parse(held.since);
  const until = lastsMs === undefined ? undefined : new Date(nowMs + lastsMs).toISOString();
  return { ...held, since: new Date(nowMs).toISOString(), until };
}

function isMisdated(at: string | undefined, nowMs: number): boolean {
  if (at === undefined) return false;
  const atMs = Date.parse(at);
  return !isPlausible(atMs) || atMs > nowMs;
}

/**
 * Returns the entries that a word names: by the start of the digest or the name of a release whose header was read, or
 * else by the ID or name of another version. The service chooses these, perhaps as the name of another release.
 */
export function findNamed(entries: readonly VersionEntry[], word: string): readonly VersionEntry[] {
  const start = word.replace('sha256:', '');
  const isDigest = (digest: string): boolean =>
    start.length >= MIN_DIGEST_CHARACTERS && digest.replace('sha256:', '').startsWith(start);
  const own = entries.filter(
    ({ digest, version }) => digest !== undefined && (isDigest(digest) || version.name === word),
  );
  if (own.length > 0) return own;
  return entries.filter(({ digest, version: { id, name } }) => digest === undefined && (id === word || name === word));
}

/** Removes the entry of a release, which may be installed again. */
export function unblock({ versions }: Ledger, release: Firmware): Ledger {
  const removed = entryOf(versions, release);
  return { versions: versions.filter((entry) => entry !== removed) };
}

export function countCheck<T extends Waiting>(waiting: T): T {
  return { ...waiting, looks: (waiting.looks ?? 0) + 1 };
}

const MAX_REMEMBERED = 8;

/** The digests of the service's last versions, in order, and the running time of the last one. */
type Turns = NonNullable<UpdateState['turns']>;

export function recordInstall(turns: Turns | undefined, digest: string, at: string): Turns {
  return { installed: [...(turns?.installed ?? []), digest].slice(-MAX_REMEMBERED), since: at, looks: 0 };
}
