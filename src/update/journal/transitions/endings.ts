import assert from 'node:assert';

import { withUnfit } from '../../delta/full-image.ts';
import { block, countFailure, noteCancelled } from '../../policy/holds/versions.ts';
import type { Firmware } from '../../policy/holds/versions.ts';
import type { SlotName } from '../../ports.ts';
import { CANCELLED_BEFORE_BOOT, countsAgainstRelease, isAmbiguous, keepsFallback } from '../../trial/failure-cause.ts';
import type { EventOf } from '../events.ts';
import { hasSlotPayload } from '../state.ts';
import type { Attempt, PendingHook, Phase, UpdateState } from '../state.ts';
import { inPhase } from './in-phase.ts';
import { withOutcomes } from './reports.ts';

/** Whether an attempt says something about the version that the service names. One by a person does not. */
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

/** What an attempt brings, as far as it is known. */
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
 * Ends an attempt that never ran: nothing is held against it, and a slot that a person wanted to go back to stays as it
 * is.
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
  const blocked = countsAgainstRelease(attempt, fault)
    ? block(next, firmwareOf(phase), { code, reason, at })
    : undefined;
  return withOutcomes({ ...next, ...blocked }, [
    { attempt: attempt.id, version: attempt.version.name, outcome: 'rolled-back', code, reason, at },
  ]);
}

export function fail(state: UpdateState, { at, failure }: EventOf<'failed'>): UpdateState {
  const { phase } = state;
  assert('attempt' in phase && phase.kind !== 'rolling-back', `no attempt can fail in phase ${phase.kind}`);
  const { version, id, by } = phase.attempt;
  const { outcome, code, reason, curable } = failure;
  const counted = failedVersion(state, phase, at, curable !== true);
  const ended = { attempt: id, version: version.name, outcome, code, reason, at };
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

/** An attempt that cannot be understood any more counts as failed, so that it is not begun again for ever. */
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
