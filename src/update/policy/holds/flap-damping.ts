import type { UpdateState } from '../../journal/state.ts';
import { LONGEST_PAUSE_LOOKS, checksLeft } from './pauses.ts';

const MAX_REMEMBERED = 8;

/** The digests of what the service had installed lately, in their order, and how long the last one has been running. */
type Turns = NonNullable<UpdateState['turns']>;

export function recordInstall(turns: Turns | undefined, digest: string, at: string): Turns {
  return { installed: [...(turns?.installed ?? []), digest].slice(-MAX_REMEMBERED), since: at, looks: 0 };
}

/**
 * The looks for which a firmware has to wait that was installed and replaced before. The first return is free, since an
 * operator may have a reason to go back and forth; each further one costs four times as much, up to a day. 0: it may be
 * installed.
 */
export function flapDelayMs(turns: Turns | undefined, digest: string | undefined, nowMs: number): number {
  const returns = turns?.installed.filter((known) => known === digest).length ?? 0;
  if (turns === undefined || returns < 2) return 0;
  return checksLeft(turns, Math.min(4 ** (returns - 1), LONGEST_PAUSE_LOOKS), nowMs);
}
