import { isPlausible } from '../../../system/time/wall-clock.ts';

/** A day with the default schedule. */
export const LONGEST_PAUSE_LOOKS = 95;
/** A look counts as much as this time, if the clock can be trusted. */
export const LOOK_MS = 15 * 60_000;
/**
 * So many interrupted attempts are blamed on power or network; further ones may mean a firmware that kills the agent.
 */
const FREE_INTERRUPTIONS = 4;

/** Since when something waits, and for how many looks already. */
export interface Waiting {
  /** ISO 8601. */
  readonly since?: string | undefined;
  readonly looks?: number | undefined;
}

export function countCheck<T extends Waiting>(waiting: T): T {
  return { ...waiting, looks: (waiting.looks ?? 0) + 1 };
}

/** The looks that are left of the pause after these failures; 0: it is over. */
export function pauseLeft(
  { begun, failed, ...waiting }: Waiting & { readonly begun: number; readonly failed: number },
  nowMs: number,
): number {
  const interruptions = Math.max(0, begun - failed - FREE_INTERRUPTIONS);
  return checksLeft(waiting, pauseAfter(failed + interruptions), nowMs);
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

/** True if the time has passed. Without a clock it never does. */
export function hasEnded(at: string | undefined, nowMs: number, lastsMs = Infinity): boolean {
  return (elapsedSince(at, nowMs) ?? 0) >= lastsMs;
}

/** The time since then; undefined: the clock was not set then or now, or was set back. */
function elapsedSince(at: string | undefined, nowMs: number): number | undefined {
  const thenMs = at === undefined ? Number.NaN : Date.parse(at);
  const isKnown = isPlausible(thenMs) && isPlausible(nowMs) && thenMs <= nowMs;
  return isKnown ? nowMs - thenMs : undefined;
}
