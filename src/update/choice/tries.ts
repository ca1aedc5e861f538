import { isPlausible } from '../../system/time/wall-clock.ts';
import type { UpdateState, VersionRef } from '../journal/state.ts';

type Tries = NonNullable<UpdateState['tries']>;
export type AllTries = Pick<UpdateState, 'tries' | 'otherTries'>;

/** A day, at the default schedule. */
export const LONGEST_PAUSE_LOOKS = 95;
/** Where the clock can be trusted, a pause ends by time, too: a look counts as much as this. */
export const LOOK_MS = 15 * 60_000;
/** Begun and cut off, by the power or the network, before it is taken for a firmware that kills the agent. */
const FREE_INTERRUPTIONS = 4;
/** Beside the version that was tried last. */
const MAX_OTHERS = 8;

/** What waits: since when, and for how many looks already. */
export interface Waiting {
  /** ISO 8601. */
  readonly since?: string | undefined;
  readonly looks?: number | undefined;
}

/** How a version is called that is being tried. */
export function keyOf({ id, name }: VersionRef): string {
  return id ?? name;
}

export function triesOf({ tries, otherTries = [] }: AllTries, version: string): Tries | undefined {
  return [tries, ...otherTries].find((known) => known?.versionId === version);
}

/** Another version starts from nothing, but for what it had failed before: versions may be named by turns. */
export function countBegin(all: AllTries, version: VersionRef, at: string): AllTries & { readonly tries: Tries } {
  const versionId = keyOf(version);
  const before = triesOf(all, versionId) ?? { versionId, begun: 0, failed: 0, gaveUp: 0 };
  const known = [...(all.otherTries ?? []), all.tries].filter((tries) => tries !== undefined);
  const others = known.filter((tries) => tries.versionId !== versionId).slice(-MAX_OTHERS);
  const tries = { ...before, begun: before.begun + 1, ...from(at) };
  return { tries, otherTries: others.length === 0 ? undefined : others };
}

/** Each that is known, changed; those that are left out are forgotten. */
export function mapTries({ tries, otherTries }: AllTries, change: (tries: Tries) => Tries | undefined): AllTries {
  const others = otherTries?.map(change).filter((other) => other !== undefined);
  return { tries: tries && change(tries), otherTries: others?.length === 0 ? undefined : others };
}

/** It got further than before: what was cut off until now was no vain attempt. */
export function countProgress(tries: Tries | undefined): Tries | undefined {
  return tries === undefined ? undefined : { ...tries, begun: tries.failed + 1 };
}

/** `counts`: waiting does not cure it. */
export function countFailure(tries: Tries | undefined, at: string, counts: boolean): Tries | undefined {
  if (tries === undefined) return undefined;
  return { ...tries, failed: tries.failed + 1, gaveUp: tries.gaveUp + Number(counts), ...from(at) };
}

export function countLook<T extends Waiting>(waiting: T): T {
  return { ...waiting, looks: (waiting.looks ?? 0) + 1 };
}

function from(at: string): Required<Waiting> {
  return { since: at, looks: 0 };
}

/** How many looks of the pause are left that follows these failures; 0: it is over. */
export function pauseLeft(tries: Tries, nowMs: number): number {
  const interruptions = Math.max(0, tries.begun - tries.failed - FREE_INTERRUPTIONS);
  return looksLeft(tries, pauseAfter(tries.failed + interruptions), nowMs);
}

/** 0, 1, 3, 7 … looks are skipped after that many failures in a row. */
function pauseAfter(failures: number): number {
  return failures === 0 ? 0 : Math.min(2 ** (failures - 1) - 1, LONGEST_PAUSE_LOOKS);
}

/**
 * Looks and time both end a pause, whichever comes first: a gateway without a clock counts its looks, however short each
 * of its days is; one that is seldom on goes by the clock.
 */
export function looksLeft(waiting: Waiting, pauseLooks: number, nowMs: number): number {
  const passedMs = passedSince(waiting.since, nowMs) ?? 0;
  return Math.max(0, pauseLooks - Math.max(waiting.looks ?? 0, Math.floor(passedMs / LOOK_MS)));
}

/** Undefined where the clock cannot tell: it was not set then, or is not now, or was set back. */
export function passedSince(at: string | undefined, nowMs: number): number | undefined {
  const thenMs = at === undefined ? Number.NaN : Date.parse(at);
  const isKnown = isPlausible(thenMs) && isPlausible(nowMs) && thenMs <= nowMs;
  return isKnown ? nowMs - thenMs : undefined;
}
