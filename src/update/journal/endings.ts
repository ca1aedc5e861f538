import assert from 'node:assert';

import { hasSlotPayload } from './state.ts';
import type { Attempt, Cause, EventOf, Outcome, PendingHook, Phase, PhaseOf, UpdateState } from './state.ts';
import { countFailure, mark } from './versions.ts';
import type { Firmware } from './versions.ts';

/** Asserts that the state is in this phase. An event that the phase does not allow is a defect. */
export function inPhase<K extends Phase['kind']>(state: UpdateState, kind: K): PhaseOf<K> {
  const { phase } = state;
  assert(isPhase(phase, kind), `an update in phase ${phase.kind} cannot do what phase ${kind} can`);
  return phase;
}

function isPhase<K extends Phase['kind']>(phase: Phase, kind: K): phase is PhaseOf<K> {
  return phase.kind === kind;
}

/** An operator cancelled a trial that never ran. */
export const CANCELLED_BEFORE_BOOT = {
  code: 'cancelled',
  reason: 'cancelled by an operator before it ran',
  fault: 'person',
} as const;

/**
 * Codes that a single power loss, full disk or late state partition may cause. If every trial of a release ends with
 * one, and the previous version does not, the release is the cause.
 */
const unclear: ReadonlySet<string> = new Set(['trial-fell-back', 'health-unknown', 'disk-full', 'state-unavailable']);

export function isAmbiguous(code: string): boolean {
  return unclear.has(code);
}

/** True if the result counts against the release. A rollback is exempt if an operator cancels it. */
export function countsAgainstRelease({ by }: Attempt, fault: Cause): boolean {
  return fault === 'firmware' || (fault === 'person' && by !== 'rollback');
}

/** True if the slot stays bootable: the target of a manual rollback does, unless it was found bad. */
export function keepsFallback({ by }: Attempt, fault: Cause): boolean {
  return by === 'rollback' && fault !== 'firmware';
}

export const MAX_REPORTS = 16;

/** The end of an attempt. */
type End = Pick<Outcome, 'outcome' | 'code' | 'reason' | 'at'>;

/**
 * Guarantee `one-report`: adds the end of an attempt to those that wait for the service. If there are too many, an
 * older one with the same result makes room, or else the oldest; the newest one contains the count of both. A waiting
 * report never changes, since the service may have it already. `by` is kept for the last result, and not reported.
 */
export function withEnd<S extends UpdateState>(
  state: S,
  { id, version: { name: version } }: Pick<Attempt, 'id' | 'version'>,
  end: End,
  by?: Attempt['by'],
): S {
  const last = { attempt: id, version, ...end };
  const reports = addReport(state.reports, last);
  if (isLessThan(state.lastOutcome, last, by)) return { ...state, reports };
  return { ...state, reports, lastOutcome: by === undefined ? last : { ...last, by } };
}

/** True if this is a file that never ran. It does not hide a result that needs attention. */
function isLessThan(before: Outcome | undefined, { outcome }: Outcome, by: Attempt['by'] | undefined): boolean {
  if (by !== 'file' || outcome === 'installed') return false;
  return before !== undefined && before.outcome !== 'installed' && before.by !== 'file';
}

function addReport(reports: readonly Outcome[], ended: Outcome): Outcome[] {
  if (reports.length < MAX_REPORTS) return [...reports, ended];
  const { version, outcome, code } = ended;
  const alike = reports.find((one) => one.version === version && one.outcome === outcome && one.code === code);
  const leaving = alike ?? reports[0];
  const { count = 0, dropped = 0 } = leaving ?? {};
  const repeated = { count: count + 1, ...(dropped > 0 && { dropped }) };
  const counts = alike === undefined ? { dropped: 1 + count + dropped } : repeated;
  return [...reports.filter((report) => report !== leaving), { ...ended, ...counts }];
}

/** The number of attempts of whose end the service will learn no more. */
export function countDropped(reports: readonly Outcome[]): number {
  return reports.reduce((sum, { dropped = 0 }) => sum + dropped, 0);
}

/** Returns the reason of a success. */
export function successReason({ by, downgrade, unverified }: Attempt): string {
  const reason = by === 'rollback' ? 'rolled back to the previous version' : 'installed';
  if (unverified !== undefined) return `${reason}, which was not verified: ${unverified.join(', ')}`;
  return downgrade === undefined ? reason : `${reason}, as root permitted, although it ${downgrade}`;
}

/** The end of an attempt that was interrupted, and was not continued. */
export function withSuperseded<S extends UpdateState>(state: S, attempt: Attempt, next: Attempt): S {
  const reason = `interrupted, and followed by version ${next.version.name}`;
  const end = { outcome: 'failed', code: 'superseded', reason, at: next.startedAt } as const;
  return withEnd(state, attempt, end, attempt.by);
}

const MAX_UNFIT = 8;

/** Adds a version whose full image is wanted. */
function withUnfit(unfit: UpdateState['unfit'], versionId: string): UpdateState['unfit'] {
  const others = unfit?.versions.filter((id) => id !== versionId) ?? [];
  return { versions: [...others, versionId].slice(-MAX_UNFIT), told: false };
}

/** The entry after something else was installed, which the next delta may fit. */
export function withoutUnfit(unfit: UpdateState['unfit']): UpdateState['unfit'] {
  return unfit && { versions: [], told: unfit.versions.length === 0 && unfit.told };
}

/** True if an attempt counts for the version that the service offers. A manual one does not. */
export function isCounted({ by }: Attempt): boolean {
  return by === 'service';
}

export function withPendingHook(
  hook: PendingHook['hook'],
  { attempt: { id, by, version }, slot }: Pick<PhaseOf<'trial'>, 'attempt' | 'slot'>,
): PendingHook {
  return { hook, attempt: id, by, version, slot };
}

type WithAttempt = Extract<Phase, { readonly attempt: Attempt }>;

/** Returns the release of an attempt, as far as it is known. */
function firmwareOf(phase: WithAttempt): Firmware {
  return { version: phase.attempt.version, digest: 'firmware' in phase ? phase.firmware.digest : undefined };
}

/** Counts a failure of an attempt against its version. */
export function failedVersion(
  state: UpdateState,
  phase: WithAttempt,
  at: string,
  counts: boolean,
): Pick<UpdateState, 'versions'> {
  return isCounted(phase.attempt) ? countFailure(state, firmwareOf(phase), at, counts) : { versions: state.versions };
}

/**
 * Ends a rollback. An attempt that never ran does not count against the release, and the target of a manual rollback
 * stays as it is.
 */
export function endRollback(
  state: UpdateState,
  { code, reason, at, fault, owesHook }: EventOf<'rolled-back'>,
): UpdateState {
  const phase = inPhase(state, 'rolling-back');
  const { attempt, firmware, slot } = phase;
  const isKept = !hasSlotPayload(firmware) || keepsFallback(attempt, fault);
  const earlier = isKept ? state.earlier : state.earlier.filter((version) => version.slot !== slot);
  const next: UpdateState = { ...state, phase: { kind: 'idle' }, earlier };
  if (code === CANCELLED_BEFORE_BOOT.code) {
    if (attempt.by === 'rollback') return next;
    const cancelled = { ...next, ...mark(state, firmwareOf(phase), { cancelled: true }) };
    return withEnd(cancelled, attempt, { outcome: 'failed', code, reason, at }, attempt.by);
  }
  const failed = failedVersion(state, phase, at, fault !== 'world' || isAmbiguous(code));
  const counted = isCounted(attempt) ? mark(failed, firmwareOf(phase), { ran: true }) : failed;
  const isBad = countsAgainstRelease(attempt, fault);
  const content = Object.fromEntries(firmware.payloads.map(({ target, digest }) => [target, digest]));
  const ended: UpdateState = {
    ...next,
    owedHook: owesHook === true ? { ...withPendingHook('after_rollback', phase), code, reason } : undefined,
    ...(isBad ? mark(counted, firmwareOf(phase), { bad: { code, reason, at, content } }) : counted),
  };
  const by = attempt.by === 'rollback' ? attempt.by : undefined;
  return withEnd(ended, attempt, { outcome: 'rolled-back', code, reason, at }, by);
}

export function fail(state: UpdateState, { at, failure, name }: EventOf<'failed'>): UpdateState {
  const { phase } = state;
  assert('attempt' in phase && phase.kind !== 'rolling-back', `no attempt can fail in phase ${phase.kind}`);
  const { curable, ...why } = failure;
  const { attempt } = phase;
  const counted = failedVersion(state, phase, at, curable !== true);
  const unfitId = why.code === 'delta-base-mismatch' && isCounted(attempt) ? attempt.version.id : undefined;
  const unfit = unfitId === undefined ? state.unfit : withUnfit(state.unfit, unfitId);
  const ended = { id: attempt.id, version: { name: name ?? attempt.version.name } };
  return withEnd({ ...state, ...counted, phase: { kind: 'idle' }, unfit }, ended, { ...why, at }, attempt.by);
}

/** Ends an attempt that the service or an operator withdrew. */
export function withdraw(state: UpdateState, end: Omit<End, 'outcome'>): UpdateState {
  const { phase } = state;
  assert(
    phase.kind === 'staging' || phase.kind === 'staged' || phase.kind === 'trial',
    `nothing waits in ${phase.kind}`,
  );
  const { code, reason, at } = end;
  const failed = { outcome: 'failed', code, reason, at } as const;
  return withEnd({ ...state, phase: { kind: 'idle' } }, phase.attempt, failed, phase.attempt.by);
}

/** An attempt that cannot be read counts as failed, so that it does not start again forever. */
export function recover(state: UpdateState, { at }: EventOf<'recovered'>): UpdateState {
  const { interrupted } = inPhase(state, 'lost');
  const next: UpdateState = { ...state, phase: { kind: 'idle' }, forgot: true };
  if (interrupted === undefined) return next;
  const reason = 'the journal of this attempt is unreadable: it is damaged, or of a newer agent';
  const counted = isCounted(interrupted) ? countFailure(state, interrupted, at, true) : undefined;
  const end = { outcome: 'failed', code: 'interrupted', reason, at } as const;
  return withEnd({ ...next, ...counted }, interrupted, end, interrupted.by);
}
