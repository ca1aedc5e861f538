import type { Attempt, Outcome, UpdateState } from '../state.ts';

export const MAX_REPORTS = 16;

/**
 * Guarantee `one-report`: adds ends of attempts to those that wait for the service. If there are too many, one that ended
 * like a newer one makes room, else the oldest; the newest says how many it stands for, and how many are gone. A
 * waiting report is never changed, since the service may have it already. `by` tells whose attempt ended last; the
 * service is not told that.
 */
export function withOutcomes<S extends UpdateState>(state: S, outcomes: readonly Outcome[], by?: Attempt['by']): S {
  let { reports } = state;
  for (const outcome of outcomes) reports = addReport(reports, outcome);
  const last = outcomes.at(-1);
  if (last === undefined || isLessThan(state.lastOutcome, last, by)) return { ...state, reports };
  return { ...state, reports, lastOutcome: by === undefined ? last : { ...last, by } };
}

/**
 * Whether a file that did not come to run ended here. That is an event, and does not hide an outcome at which a person
 * should look.
 */
function isLessThan(before: Outcome | undefined, { outcome }: Outcome, by: Attempt['by'] | undefined): boolean {
  if (by !== 'file' || outcome === 'installed') return false;
  return before !== undefined && before.outcome !== 'installed' && before.by !== 'file';
}

function addReport(reports: readonly Outcome[], outcome: Outcome): Outcome[] {
  if (reports.length < MAX_REPORTS) return [...reports, outcome];
  const alike = reports.find((report) => isAlike(report, outcome));
  const leaving = alike ?? reports[0];
  const kept = reports.filter((report) => report !== leaving);
  return [...kept, alike === undefined ? standingIn(outcome, leaving) : repeating(outcome, alike)];
}

function isAlike(one: Outcome, other: Outcome): boolean {
  return one.version === other.version && one.outcome === other.outcome && one.code === other.code;
}

function repeating(outcome: Outcome, { count = 0, dropped = 0 }: Outcome): Outcome {
  return { ...outcome, count: count + 1, ...(dropped > 0 && { dropped }) };
}

function standingIn(outcome: Outcome, leaving: Outcome | undefined): Outcome {
  return { ...outcome, dropped: 1 + (leaving?.count ?? 0) + (leaving?.dropped ?? 0) };
}

/** The number of attempts of whose end the service will learn no more. */
export function countDropped(reports: readonly Outcome[]): number {
  return reports.reduce((sum, { dropped = 0 }) => sum + dropped, 0);
}

export function installReason({ downgrade }: Attempt): string {
  return downgrade === undefined ? 'installed' : `installed, as root said, although it ${downgrade}`;
}

/** The reason of a successful rollback. */
export function rollbackReason({ unverified }: Attempt): string {
  const reason = 'went back to what was installed before';
  return unverified === undefined ? reason : `${reason}, which was not verified again: ${unverified.join(', ')}`;
}

/** The end of an attempt that was interrupted, and was not continued. */
export function withSuperseded<S extends UpdateState>(state: S, { id, version, by }: Attempt, next: Attempt): S {
  const reason = `interrupted, and followed by version ${next.version.name}`;
  const [outcome, code, at] = ['failed', 'superseded', next.startedAt] as const;
  return withOutcomes(state, [{ attempt: id, version: version.name, outcome, code, reason, at }], by);
}
