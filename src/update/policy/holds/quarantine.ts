import { isPlausible } from '../../../system/time/wall-clock.ts';
import { UpdateError } from '../../errors.ts';
import type { ManualHold } from '../../journal/parts/standstill.ts';
import type { Quarantined, UpdateState, VersionRef } from '../../journal/state.ts';
import { keyOf, mapTries, elapsedSince, pauseLeft, triesOf } from './retry-backoff.ts';

const MAX_QUARANTINED = 16;
/** The least part of a digest that a person must type to name one firmware. */
const MIN_DIGEST_CHARACTERS = 12;

export function withQuarantined(state: UpdateState, entry: Quarantined): UpdateState {
  const others = state.quarantine.filter((old) => old.digest !== entry.digest || old.version.id !== entry.version.id);
  return { ...state, quarantine: [...others, entry].slice(-MAX_QUARANTINED) };
}

/** The entries whose time has not passed. */
export function activeEntries(state: UpdateState, nowMs: number, lastsMs: number): readonly Quarantined[] {
  return state.quarantine.filter(({ at }) => !hasEnded(at, nowMs, lastsMs));
}

/** Why what is held back is not installed, and how a person names it to have it tried again. */
export function quarantinedError({ version: { id, name }, reason }: Quarantined): UpdateError {
  const word = [name, id].find((text) => /^\w[\w.+-]*$/.test(text ?? '')) ?? 'VERSION';
  const advice = `install another version, lift it with agent unblock ${word}, or repeat with --force`;
  return new UpdateError('quarantined', `it ended badly before (${name}: ${reason})`, { advice });
}

/** Whether the time has passed. Without a clock it never does. */
export function hasEnded(at: string | undefined, nowMs: number, lastsMs: number): boolean {
  return (elapsedSince(at, nowMs) ?? 0) >= lastsMs;
}

/** Restarts the time of everything that was held back while the clock was not set, or showed a time in the future. */
export function restartDurations(state: UpdateState, at: string): UpdateState {
  const nowMs = Date.parse(at);
  const redate = <T extends { readonly since?: string | undefined }>(waiting: T): T =>
    isMisdated(waiting.since, nowMs) ? { ...waiting, since: at } : waiting;
  return {
    ...state,
    quarantine: state.quarantine.map((entry) => (isMisdated(entry.at, nowMs) ? { ...entry, at } : entry)),
    ...mapTries(state, redate),
    standstill: state.standstill && holdAnew(state.standstill, nowMs),
  };
}

/** Whether something has to be dated again. `nowMs` must come from a clock that is set. */
export function needsDate(state: UpdateState, nowMs: number): boolean {
  const { quarantine, tries, otherTries = [], standstill } = state;
  const dates = [tries, ...otherTries, standstill].map((waiting) => waiting?.since);
  return isPlausible(nowMs) && [...dates, ...quarantine.map(({ at }) => at)].some((at) => isMisdated(at, nowMs));
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

/** Whether a word names this firmware: by id or name of its version, or the beginning of its digest. */
export function matchesName({ version, digest }: Pick<Quarantined, 'version' | 'digest'>, word: string): boolean {
  const hex = digest?.replace('sha256:', '');
  const isDigest = word.replace('sha256:', '').length >= MIN_DIGEST_CHARACTERS;
  return (
    version.id === word || version.name === word || (isDigest && hex?.startsWith(word.replace('sha256:', '')) === true)
  );
}

/** The names of deferred versions that a person's word refers to. A version that was only begun is not held back. */
export function heldVersions(state: UpdateState, word: string, nowMs: number): readonly string[] {
  const names = state.quarantine.filter((entry) => matchesName(entry, word)).map(({ version }) => version.name);
  if (names.length > 0) return [...new Set(names)];
  const tries = triesOf(state, word);
  const isHeld = tries !== undefined && (tries.failed > 0 || pauseLeft(tries, nowMs) > 0);
  return isHeld ? [word] : [];
}

/** Lifts the quarantine: the service's version, or the file, may be installed again. */
export function unblock(state: UpdateState, word: string): UpdateState {
  const lifted = state.quarantine.filter((entry) => matchesName(entry, word));
  const keys = new Set([word, ...lifted.map(({ version }) => keyOf(version))]);
  return {
    ...state,
    quarantine: state.quarantine.filter((entry) => !lifted.includes(entry)),
    ...mapTries(state, (tries) => (keys.has(tries.versionId) ? undefined : tries)),
  };
}

/**
 * Whether the quarantine covers this firmware. A file is recognized by its digest alone; a version of the service by
 * its id, too, since a new id is a new order.
 */
export function blocksFirmware(entry: Quarantined, digest: string, version: VersionRef): boolean {
  return entry.digest === digest && (version.id === undefined || entry.version.id === version.id);
}
