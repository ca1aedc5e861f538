import assert from 'node:assert';

import type { SlotName } from '../ports.ts';
import { hasSlotPayload } from './state.ts';
import type { Attempt, Cause, EventOf, Outcome, PendingHook, Phase, PhaseOf, UpdateState } from './state.ts';
import { block, countFailure, noteCancelled } from './versions.ts';
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
  reason: 'a person cancelled it before it ran',
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

/**
 * Guarantee `one-report`: adds results of attempts to those that wait for the service. If there are too many, an older
 * one with the same result makes room, or else the oldest; the newest one contains the count of both. A waiting report
 * never changes, since the service may have it already. `by` is kept for the last result, and not reported.
 */
export function withOutcomes<S extends UpdateState>(state: S, outcomes: readonly Outcome[], by?: Attempt['by']): S {
  let { reports } = state;
  for (const outcome of outcomes) reports = addReport(reports, outcome);
  const last = outcomes.at(-1);
  if (last === undefined || isLessThan(state.lastOutcome, last, by)) return { ...state, reports };
  return { ...state, reports, lastOutcome: by === undefined ? last : { ...last, by } };
}

/** True if this is a file that never ran. It does not hide a result that needs attention. */
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

const MAX_UNFIT = 8;

type RejectedDeltas = UpdateState['unfit'];

export function withUnfit(unfit: RejectedDeltas, versionId: string): RejectedDeltas {
  const others = unfit?.versions.filter((id) => id !== versionId) ?? [];
  return { versions: [...others, versionId].slice(-MAX_UNFIT), told: false };
}

/** The entry after something else was installed, which the next delta may fit. */
export function withoutUnfit(unfit: RejectedDeltas): RejectedDeltas {
  return unfit === undefined || unfit.versions.length === 0 ? unfit : { versions: [], told: false };
}

/** Returns the entry after the service received it. It is kept as long as the images are wanted. */
export function toldUnfit(unfit: RejectedDeltas): RejectedDeltas {
  return unfit === undefined || unfit.versions.length === 0 ? undefined : { ...unfit, told: true };
}

/** True if an attempt counts for the version that the service offers. A manual one does not. */
export function isCounted({ by }: Attempt): boolean {
  return by === 'service';
}

export function withPendingHook(
  hook: PendingHook['hook'],
  { attempt: { id, by, version }, slot }: { readonly attempt: Attempt; readonly slot: SlotName },
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
 * Ends an attempt that never ran: it does not count against the release, and the target of a manual rollback stays as
 * it is.
 */
function callOff(state: UpdateState, { code, reason, at }: EventOf<'rolled-back'>): UpdateState {
  const phase = inPhase(state, 'rolling-back');
  const { attempt } = phase;
  const next = { ...state, phase: { kind: 'idle' } } as const;
  if (attempt.by === 'rollback') return next;
  const outcome = { attempt: attempt.id, version: attempt.version.name, outcome: 'failed', code, reason, at } as const;
  return withOutcomes(
    { ...next, previous: undefined, ...noteCancelled(state, firmwareOf(phase)) },
    [outcome],
    attempt.by,
  );
}

export function cancelOrRollBack(state: UpdateState, event: EventOf<'rolled-back'>): UpdateState {
  if (event.code === CANCELLED_BEFORE_BOOT.code) return callOff(state, event);
  const phase = inPhase(state, 'rolling-back');
  const { attempt, firmware, slot } = phase;
  const { code, reason, at, fault, owesHook } = event;
  const isKept = !hasSlotPayload(firmware) || keepsFallback(attempt, fault);
  const next: UpdateState = {
    ...state,
    phase: { kind: 'idle' },
    owedHook: owesHook === true ? { ...withPendingHook('after_rollback', { attempt, slot }), code, reason } : undefined,
    previous: isKept ? state.previous : undefined,
    ...failedVersion(state, phase, at, fault !== 'world' || isAmbiguous(code)),
  };
  const content = Object.fromEntries(firmware.payloads.map(({ target, digest }) => [target, digest]));
  const blocked = countsAgainstRelease(attempt, fault)
    ? block(next, firmwareOf(phase), { code, reason, at, content })
    : undefined;
  return withOutcomes({ ...next, ...blocked }, [
    { attempt: attempt.id, version: attempt.version.name, outcome: 'rolled-back', code, reason, at },
  ]);
}

export function fail(state: UpdateState, { at, failure, name }: EventOf<'failed'>): UpdateState {
  const { phase } = state;
  assert('attempt' in phase && phase.kind !== 'rolling-back', `no attempt can fail in phase ${phase.kind}`);
  const { version, id, by } = phase.attempt;
  const { outcome, code, reason, curable } = failure;
  const counted = failedVersion(state, phase, at, curable !== true);
  const ended = { attempt: id, version: name ?? version.name, outcome, code, reason, at };
  const unfitId = code === 'delta-base-mismatch' && isCounted(phase.attempt) ? version.id : undefined;
  const unfit = unfitId === undefined ? state.unfit : withUnfit(state.unfit, unfitId);
  return withOutcomes({ ...state, ...counted, phase: { kind: 'idle' }, unfit }, [ended], by);
}

export function withdraw(state: UpdateState, { at, code, reason }: EventOf<'withdrawn'>): UpdateState {
  const { phase } = state;
  assert(
    phase.kind === 'staging' || phase.kind === 'staged' || phase.kind === 'trial',
    `nothing waits in ${phase.kind}`,
  );
  const { id, version, by } = phase.attempt;
  const ended = { attempt: id, version: version.name, outcome: 'failed', code, reason, at } as const;
  return withOutcomes({ ...state, phase: { kind: 'idle' } }, [ended], by);
}

/** An attempt that cannot be read counts as failed, so that it does not start again forever. */
export function recover(state: UpdateState, { at }: EventOf<'recovered'>): UpdateState {
  const { interrupted } = inPhase(state, 'lost');
  const next: UpdateState = { ...state, phase: { kind: 'idle' }, forgot: true };
  if (interrupted === undefined) return next;
  const reason = 'the journal of this attempt cannot be understood: it is damaged, or of a newer agent';
  const { id: attempt, version, by } = interrupted;
  const outcome = { attempt, version: version.name, outcome: 'failed', code: 'interrupted', reason, at } as const;
  const counted = isCounted(interrupted) ? countFailure(state, interrupted, at, true) : undefined;
  return withOutcomes({ ...next, ...counted }, [outcome], by);
}
