import type { AgentError } from '../../system/errors.ts';
import { isPlausible } from '../../system/time/wall-clock.ts';
import { UpdateError } from '../errors.ts';
import type { UpdateState, VersionEntry } from '../journal/state.ts';
import { MAX_HELD, MIN_DIGEST_CHARACTERS, findNamed, isHeld } from '../journal/versions.ts';
import type { Blocked, Waiting } from '../journal/versions.ts';

/** When the attempts of a release that kept failing are counted again from 0. */
const LONGEST_EXHAUSTION_MS = 30 * 86_400_000;

/** A day with the default schedule. */
export const MAX_PAUSE_CHECKS = 95;
/** A check counts as this time, if the clock is synchronized. */
export const CHECK_MS = 15 * 60_000;
/**
 * This number of interrupted attempts is attributed to power or network; more may mean a release that kills the agent.
 */
const FREE_INTERRUPTIONS = 4;

/** Returns the number of checks that remain of the pause after these failures. */
export function pauseLeft(
  { begun, failed, ...waiting }: Waiting & { readonly begun: number; readonly failed: number },
  nowMs: number,
): number {
  const interruptions = Math.max(0, begun - failed - FREE_INTERRUPTIONS);
  return checksLeft(waiting, pauseAfter(failed + interruptions), nowMs);
}

/** Returns the number of checks to skip after this number of failures in a row: 0, 1, 3, 7 and so on. */
function pauseAfter(failures: number): number {
  return failures === 0 ? 0 : Math.min(2 ** (failures - 1) - 1, MAX_PAUSE_CHECKS);
}

/**
 * Returns the number of checks that remain of a pause. Checks and time both end it, whichever comes first: a gateway
 * without a clock counts checks, and a gateway that is rarely on goes by the clock.
 */
export function checksLeft(waiting: Waiting, pauseChecks: number, nowMs: number): number {
  const passedMs = elapsedSince(waiting.since, nowMs) ?? 0;
  return Math.max(0, pauseChecks - Math.max(waiting.looks ?? 0, Math.floor(passedMs / CHECK_MS)));
}

/** True if the time has passed. Without a clock it never does. */
export function hasEnded(at: string | undefined, nowMs: number, lastsMs = Infinity): boolean {
  return (elapsedSince(at, nowMs) ?? 0) >= lastsMs;
}

/** Returns the time since then, or undefined if the clock was not set then or now, or was set back. */
function elapsedSince(at: string | undefined, nowMs: number): number | undefined {
  const thenMs = at === undefined ? Number.NaN : Date.parse(at);
  const isKnown = isPlausible(thenMs) && isPlausible(nowMs) && thenMs <= nowMs;
  return isKnown ? nowMs - thenMs : undefined;
}

/**
 * Returns the number of checks that a release has to wait that was installed and replaced before. The first return is
 * free, since an operator may go back and forth; each further one takes four times as long, up to a day.
 */
export function flapChecksLeft(turns: UpdateState['turns'], digest: string | undefined, nowMs: number): number {
  const returns = turns?.installed.filter((known) => known === digest).length ?? 0;
  if (turns === undefined || returns < 2) return 0;
  return checksLeft(turns, Math.min(4 ** (returns - 1), MAX_PAUSE_CHECKS), nowMs);
}

/**
 * Returns the entries whose quarantine has not ended. Without a limit only an operator ends one, so the service causes
 * at most one trial of a release that failed.
 */
export function activeEntries(
  { versions }: Pick<UpdateState, 'versions'>,
  nowMs: number,
  lastsMs?: number,
): readonly Blocked[] {
  return versions.filter((entry): entry is Blocked => isActive(entry, nowMs, lastsMs));
}

/** True if the release is in quarantine. */
export function isActive(entry: VersionEntry, nowMs: number, lastsMs?: number): entry is Blocked {
  return entry.bad !== undefined && !hasEnded(entry.bad.at, nowMs, lastsMs);
}

/** True if the release failed too often to be tried again soon. It ran in no trial that found it bad, so this ends. */
export function isExhausted(
  { gaveUp, since }: VersionEntry,
  attempts: number,
  nowMs: number,
  lastsMs = Infinity,
): boolean {
  return gaveUp >= attempts && !hasEnded(since, nowMs, Math.min(lastsMs, LONGEST_EXHAUSTION_MS));
}

/** True if as many other versions are deferred as can be remembered. */
export function isFull(
  { versions }: Pick<UpdateState, 'versions'>,
  offered: VersionEntry | undefined,
  nowMs: number,
  lastsMs?: number,
): boolean {
  const stands = (entry: VersionEntry): boolean =>
    entry.bad === undefined
      ? entry.ran !== true || isExhausted(entry, 0, nowMs, lastsMs)
      : isActive(entry, nowMs, lastsMs);
  return versions.filter((entry) => entry !== offered && isHeld(entry) && stands(entry)).length >= MAX_HELD;
}

/**
 * True if a failure does not show a fault of the release: a login page of the network was delivered instead, the medium
 * failed, or the service has the full image of a delta later.
 */
export function isEnvironmental({ exit, code }: AgentError): boolean {
  return exit === 'protocol' || code === 'delta-base-mismatch' || (exit === 'disk' && code !== 'slot-too-small');
}

/** Returns the error for a blocked release, with the word that unblocks it. */
export function quarantinedError({ version: { name }, digest, bad: { reason } }: Blocked): UpdateError {
  const start = digest?.replace('sha256:', '').slice(0, MIN_DIGEST_CHARACTERS) ?? 'VERSION';
  const word = /^\w[\w.+-]*$/.test(name) ? name : start;
  const advice = `install another version, run agent unblock ${word}, or repeat with --force`;
  return new UpdateError('quarantined', `${name} is blocked: ${reason}`, { advice });
}

/** Returns the blocked version that a word names. A version that was only started is not blocked. */
export function findBlocked({ versions }: Pick<UpdateState, 'versions'>, word: string, nowMs: number): VersionEntry {
  const held = versions.filter((entry) => entry.bad !== undefined || entry.failed > 0 || pauseLeft(entry, nowMs) > 0);
  const [found, ...others] = findNamed(held, word);
  if (found === undefined) throw new UpdateError('version-not-blocked', `no version ${word} is blocked`);
  if (others.length === 0) return found;
  const candidates = [found, ...others].map(({ version: { id, name }, digest }) => `${name} (${digest ?? `ID ${id}`})`);
  throw new UpdateError('version-ambiguous', `${word} names several blocked versions: ${candidates.join(', ')}`);
}
