import { isPlausible } from '../../../system/time/wall-clock.ts';
import type { UpdateState, VersionRef } from '../../journal/state.ts';

type Tries = NonNullable<UpdateState['tries']>;
export type RetryCounts = Pick<UpdateState, 'tries' | 'otherTries'>;

/** A day with the default schedule. */
export const LONGEST_PAUSE_LOOKS = 95;
/** A look counts as much as this time, if the clock can be trusted. */
export const LOOK_MS = 15 * 60_000;
/**
 * So many interrupted attempts are blamed on power or network; further ones may mean a firmware that kills the agent.
 */
const FREE_INTERRUPTIONS = 4;
/** How many other versions are remembered beside the last one. */
const MAX_OTHERS = 8;

/** Since when something waits, and for how many looks already. */
export interface Waiting {
  /** ISO 8601. */
  readonly since?: string | undefined;
  readonly looks?: number | undefined;
}

/** The key under which tries of a version are counted. */
export function keyOf({ id, name }: VersionRef): string {
  return id ?? name;
}

export function triesOf({ tries, otherTries = [] }: RetryCounts, version: string): Tries | undefined {
  return [tries, ...otherTries].find((known) => known?.versionId === version);
}

/**
 * Counts the beginning of an attempt. Another version starts from zero, or from its own earlier tries, since the
 * service may name versions in turn.
 */
export function countBegin(all: RetryCounts, version: VersionRef, at: string): RetryCounts & { readonly tries: Tries } {
  const versionId = keyOf(version);
  const before = triesOf(all, versionId) ?? { versionId, begun: 0, failed: 0, gaveUp: 0 };
  const known = [...(all.otherTries ?? []), all.tries].filter((tries) => tries !== undefined);
  const others = known.filter((tries) => tries.versionId !== versionId).slice(-MAX_OTHERS);
  const tries = { ...before, begun: before.begun + 1, ...from(at) };
  return { tries, otherTries: others.length === 0 ? undefined : others };
}

/** Changes the tries of each version; undefined forgets them. */
export function mapTries({ tries, otherTries }: RetryCounts, change: (tries: Tries) => Tries | undefined): RetryCounts {
  const others = otherTries?.map(change).filter((other) => other !== undefined);
  return { tries: tries && change(tries), otherTries: others?.length === 0 ? undefined : others };
}

/** The attempt got further than before, so the interruptions before were not in vain. */
export function countProgress(tries: Tries | undefined): Tries | undefined {
  return tries === undefined ? undefined : { ...tries, begun: tries.failed + 1 };
}

/** Counts a failure. `counts`: waiting does not cure it. */
export function countFailure(tries: Tries | undefined, at: string, counts: boolean): Tries | undefined {
  if (tries === undefined) return undefined;
  return { ...tries, failed: tries.failed + 1, gaveUp: tries.gaveUp + Number(counts), ...from(at) };
}

export function countCheck<T extends Waiting>(waiting: T): T {
  return { ...waiting, looks: (waiting.looks ?? 0) + 1 };
}

function from(at: string): Required<Waiting> {
  return { since: at, looks: 0 };
}

/** The looks that are left of the pause after these failures; 0: it is over. */
export function pauseLeft(tries: Tries, nowMs: number): number {
  const interruptions = Math.max(0, tries.begun - tries.failed - FREE_INTERRUPTIONS);
  return checksLeft(tries, pauseAfter(tries.failed + interruptions), nowMs);
}

/** After so many failures in a row, 0, 1, 3, 7 … looks are skipped. */
function pauseAfter(failures: number): number {
  return failures === 0 ? 0 : Math.min(2 ** (failures - 1) - 1, LONGEST_PAUSE_LOOKS);
}

/**
 * The looks that are left of a pause. Looks and time both end it, whichever comes first: a gateway without a clock
 * counts looks, however short it is on each day; one that is rarely on goes by the clock.
 */
export function checksLeft(waiting: Waiting, pauseLooks: number, nowMs: number): number {
  const passedMs = elapsedSince(waiting.since, nowMs) ?? 0;
  return Math.max(0, pauseLooks - Math.max(waiting.looks ?? 0, Math.floor(passedMs / LOOK_MS)));
}

/** The time since then; undefined: the clock was not set then or now, or was set back. */
export function elapsedSince(at: string | undefined, nowMs: number): number | undefined {
  const thenMs = at === undefined ? Number.NaN : Date.parse(at);
  const isKnown = isPlausible(thenMs) && isPlausible(nowMs) && thenMs <= nowMs;
  return isKnown ? nowMs - thenMs : undefined;
}
