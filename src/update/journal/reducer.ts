import assert from 'node:assert';

import { isSemanticName } from '../version-order.ts';
import {
  withoutUnfit,
  endRollback,
  fail,
  failedVersion,
  isCounted,
  withPendingHook,
  recover,
  withdraw,
  inPhase,
  successReason,
  withEnd,
  withSuperseded,
} from './endings.ts';
import { findInstalled, applyTrustList, nameVersion, overriddenBy, reconcile } from './naming.ts';
import {
  swapSlots,
  changeSlot,
  earlierAfter,
  installedAfterCommit,
  raiseFloor,
  raiseFloors,
  boardsOnlyRollback,
  forgetPartitions,
} from './places.ts';
import { hasSlotPayload, isAfterBoards } from './state.ts';
import type { EventOf, EventType, Figures, Installed, Phase, PhaseOf, StateIn, UpdateState } from './state.ts';
import * as ledger from './versions.ts';
import { recordInstall, countCheck } from './versions.ts';

const transitions = {
  'staging-started': startStaging,
  'identity-changed': (state) => ({
    ...state,
    versions: [],
    turns: undefined,
    named: undefined,
    pendingSwitch: undefined,
    reports: [],
    lastOutcome: undefined,
  }),
  identified: (state, { digest, forced, manual }) => {
    const phase = inPhase(state, 'staging');
    const attempt = { ...phase.attempt, forced, manual };
    return { ...state, ...ledger.identify(state, attempt, digest), phase: { ...phase, attempt } };
  },
  'list-rejected': (state, { version, at }) => ({
    ...state,
    ...ledger.countFailure(state, { version }, at, false),
  }),
  checkpointed: (state, { checkpoint, figures }) => {
    const phase = withFigures(inPhase(state, 'staging'), figures);
    const hasAdvanced = (checkpoint?.wire.offset ?? 0) > (phase.checkpoint?.wire.offset ?? 0);
    const isProgress = isCounted(phase.attempt) && hasAdvanced;
    const counted = isProgress ? ledger.countProgress(state, phase.attempt.version) : undefined;
    return { ...state, ...counted, phase: { ...phase, checkpoint } };
  },
  'staging-paused': (state, { at, figures }) => {
    const phase = withFigures(inPhase(state, 'staging'), figures);
    return { ...state, ...failedVersion(state, phase, at, false), phase };
  },
  'slot-opened': (state, { target }) => {
    const phase = inPhase(state, 'staging');
    const earlier = state.earlier.filter(({ slot }) => slot !== phase.slot);
    return { ...state, phase, earlier, slots: forgetPartitions(state.slots, phase.slot, [target]) };
  },
  staged: (state, { firmware, slot, trials, name, downgrade, records, figures }) => {
    const { attempt: begun } = withFigures(inPhase(state, 'staging'), figures);
    const named = name === undefined ? begun : { ...begun, version: { ...begun.version, name } };
    const attempt = { ...named, downgrade };
    const phase = { kind: 'staged', attempt, slot, firmware, trialsLeft: trials } as const;
    return {
      ...state,
      phase,
      slots: changeSlot(state.slots, slot, { records: { ...state.slots[slot].records, ...records } }),
    };
  },
  'rollback-staged': stageRollback,
  'found-unverified': (state, { unverified }) => {
    const { phase } = state;
    assert(phase.kind === 'staged' || phase.kind === 'trial', `nothing goes back in phase ${phase.kind}`);
    const attempt = { ...phase.attempt, unverified: [...unverified] };
    return { ...state, phase: { ...phase, attempt } };
  },
  'trial-armed': (state, { bootId, rebootByHand }) => ({ ...state, phase: arm(state.phase, bootId, rebootByHand) }),
  'reboot-asked': (state) => ({ ...state, phase: { ...inPhase(state, 'trial'), rebootAsked: true } }),
  'trial-missed': (state) => {
    const { attempt, slot, firmware, trialsLeft } = inPhase(state, 'trial');
    return { ...state, phase: { kind: 'staged', attempt, slot, firmware, trialsLeft: trialsLeft + 1 } };
  },
  'health-check-started': (state) => ({ ...state, phase: countJudgement(state.phase) }),
  approved: (state) => ({ ...state, phase: { ...inPhase(state, 'trial'), approved: true } }),
  committed: commit,
  'rollback-started': (state, { code, reason, fault }) => {
    // a slot that was armed may have run and been left before the journal could say that it was armed
    const { attempt, slot, firmware, boards } =
      state.phase.kind === 'staged' ? arm(state.phase, '', false) : inPhase(state, 'trial');
    return {
      ...state,
      phase: { kind: 'rolling-back', attempt, slot, firmware, code, reason, fault, boards, restores: 0 },
    };
  },
  'board-write-started': (state, { target }) => ({ ...state, phase: markBoard(state, target, 'touched') }),
  'board-flashed': (state, { target }) => ({ ...state, phase: markBoard(state, target, 'flashed') }),
  restoring: (state) => {
    const phase = inPhase(state, 'rolling-back');
    return { ...state, phase: { ...phase, restores: phase.restores + 1 } };
  },
  'board-restored': (state, { target }) => {
    const phase = inPhase(state, 'rolling-back');
    const boards = Object.fromEntries(Object.entries(phase.boards).filter(([name]) => name !== target));
    return { ...state, phase: { ...phase, boards } };
  },
  'rolled-back': endRollback,
  failed: fail,
  withdrawn: withdraw,
  cancelled: (state, { at }) => {
    const { version } = inPhase(state, 'staging').attempt;
    const end = { at, code: 'cancelled', reason: 'cancelled by an operator' };
    return { ...withdraw(state, end), ...ledger.mark(state, { version }, { cancelled: true }) };
  },
  'slots-swapped': swapSlots,
  'found-installed': findInstalled,
  'trust-list-applied': applyTrustList,
  'slot-abandoned': (state, event) => {
    const next = boardsOnlyRollback(state, event);
    return state.phase.kind === 'staging' ? withSuperseded(next, state.phase.attempt, event.attempt) : next;
  },
  'slot-seen': (state, { slot, at }) => ({ ...state, slots: changeSlot(state.slots, slot, { seen: { at } }) }),
  'records-invalidated': (state, { slot, targets }) => ({
    ...state,
    slots: forgetPartitions(state.slots, slot, targets),
  }),
  'factory-version': (state, { installed }) => {
    const { name } = installed.version;
    return { ...state, installed, ...(isSemanticName(name) && { floor: raiseFloor(state.floor, { factory: name }) }) };
  },
  recovered: recover,
  switched: (state, { versionId }) =>
    state.pendingSwitch === versionId ? { ...state, pendingSwitch: undefined } : state,
  'record-differs': (state, { versionId }) => ({ ...state, pendingSwitch: versionId }),
  reconciled: reconcile,
  reported: (state, { attemptId }) => ({
    ...state,
    reports: state.reports.filter((report) => report.attempt !== attemptId),
  }),
  'full-image-requested': (state) => ({
    ...state,
    unfit: state.unfit?.versions.length ? { ...state.unfit, told: true } : undefined,
  }),
  'hook-notified': (state, { attemptId }) =>
    state.owedHook?.attempt === attemptId ? { ...state, owedHook: undefined } : state,
  'name-disambiguated': (state, { versionId }) =>
    state.installed === undefined ? state : { ...state, installed: { ...state.installed, namesake: versionId } },
  'offer-changed': nameVersion,
  'check-deferred': (state) => ({
    ...state,
    versions: state.versions.map(countCheck),
    turns: state.turns && countCheck(state.turns),
  }),
  'quarantine-started': (state, { at }) => ledger.restartDurations(state, at),
  unblocked: (state, { release }) => ({ ...state, ...ledger.unblock(state, release) }),
  'hold-started': (state, { standstill }) => ({ ...state, standstill }),
  'hold-released': (state) => ({ ...state, standstill: undefined }),
} satisfies { readonly [T in EventType]: (state: UpdateState, event: EventOf<T>) => UpdateState };

/** The state after an event. */
export type StateAfter<T extends EventType> = ReturnType<(typeof transitions)[T]>;

const byType: { readonly [T in EventType]: (state: UpdateState, event: EventOf<T>) => StateAfter<T> } = transitions;

/** The state after an event. Pure. */
export function advance<T extends EventType>(state: UpdateState, event: EventOf<T>): StateAfter<T> {
  return byType[event.type](state, event);
}

function markBoard(state: UpdateState, target: string, mark: 'touched' | 'flashed'): PhaseOf<'trial'> {
  const phase = inPhase(state, 'trial');
  return { ...phase, boards: { ...phase.boards, [target]: mark } };
}

function startStaging(state: UpdateState, { attempt, slot, at }: EventOf<'staging-started'>): StateIn<'staging'> {
  const { phase } = state;
  assert(phase.kind === 'idle' || phase.kind === 'staging', `no staging in phase ${phase.kind}`);
  const next = isCounted(attempt) ? { ...state, ...ledger.countBegin(state, attempt.version, at) } : state;
  if (phase.kind === 'staging' && phase.attempt.id === attempt.id)
    return { ...next, phase: { ...phase, slot, attempt } };
  const begun: StateIn<'staging'> = { ...next, phase: { kind: 'staging', attempt, slot } };
  return phase.kind === 'staging' ? withSuperseded(begun, phase.attempt, attempt) : begun;
}

function withFigures(phase: PhaseOf<'staging'>, figures: Figures | undefined): PhaseOf<'staging'> {
  return figures === undefined ? phase : { ...phase, attempt: { ...phase.attempt, figures } };
}

function stageRollback(
  state: UpdateState,
  { attempt, slot, firmware, trials }: EventOf<'rollback-staged'>,
): StateIn<'staged'> {
  inPhase(state, 'idle');
  const isKnown = hasSlotPayload(firmware) ? state.slots[slot].seen !== undefined : isAfterBoards(state);
  assert(isKnown, 'a rollback needs a known version');
  return { ...state, phase: { kind: 'staged', attempt, slot, firmware, trialsLeft: trials } };
}

function arm(phase: Phase, bootId: string, rebootByHand: boolean): PhaseOf<'trial'> {
  assert(phase.kind === 'staged' || phase.kind === 'trial', `nothing to arm in phase ${phase.kind}`);
  return {
    ...phase,
    kind: 'trial',
    trialsLeft: Math.max(0, phase.trialsLeft - 1),
    bootId,
    rebootByHand,
    judgements: 0,
    approved: false,
    boards: phase.kind === 'trial' ? phase.boards : {},
    rebootAsked: !rebootByHand,
  };
}

function countJudgement(phase: Phase): PhaseOf<'trial'> {
  if (phase.kind === 'staged') return countJudgement(arm(phase, '', false));
  assert(phase.kind === 'trial', `nothing to judge in phase ${phase.kind}`);
  return { ...phase, judgements: phase.judgements + 1 };
}

/** Records that an operator replaced a release of the service, which must not return under another ID. */
function withOverridden(state: UpdateState): Pick<UpdateState, 'versions'> {
  return state.installed === undefined ? state : ledger.mark(state, state.installed, { overridden: true });
}

function commit(state: UpdateState, { at, slot, owesHook }: EventOf<'committed'>): UpdateState {
  const trial = inPhase(state, 'trial');
  const { attempt, firmware } = trial;
  const isRollback = attempt.by === 'rollback';
  const isByHand = attempt.by !== 'service';
  const none = { overrides: undefined, byHand: undefined, wentBack: isRollback ? true : undefined };
  const marks = { ...none, ...(isByHand && overriddenBy(state)) };
  const installed: Installed = {
    ...installedAfterCommit(state, trial, slot),
    version: attempt.version,
    slot,
    at,
    ...marks,
  };
  const next: UpdateState = {
    ...state,
    phase: { kind: 'idle' },
    owedHook: owesHook === true ? withPendingHook('after_commit', { attempt, slot }) : undefined,
    installed,
    earlier: earlierAfter(state, trial, slot),
    slots: changeSlot(state.slots, slot, { seen: { at } }),
    pendingSwitch: attempt.version.id,
    listVersion: attempt.version.id === state.listVersion ? undefined : state.listVersion,
    ...ledger.clear(isByHand ? withOverridden(state) : { versions: ledger.clearOthers(state) }, {
      version: attempt.version,
      digest: firmware.digest,
    }),
    turns: isByHand ? state.turns : recordInstall(state.turns, firmware.digest, at),
    unfit: isByHand ? state.unfit : withoutUnfit(state.unfit),
    ...(isRollback ? undefined : raiseFloors(state, firmware)),
  };
  return withEnd(next, attempt, { outcome: 'installed', code: 'ok', reason: successReason(attempt), at });
}
