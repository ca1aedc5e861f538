import { isAmbiguous } from '../journal/endings.ts';
import { hasSlotPayload } from '../journal/state.ts';
import type { Phase, PhaseOf, TrialFailure, UpdateState } from '../journal/state.ts';
import type { SlotName } from '../ports.ts';

/** The reaction to the journal at a start. */
export type Recovery =
  /**
   * `keep`: keep the running slot, and renew its boot counters; an interrupted staging resumes at the next check.
   * `fail-staging`: a staging from a local file cannot resume.
   */
  | { readonly kind: 'keep' | 'fail-staging' }
  /**
   * The running slot is on trial without a record in the journal. If the slot is known, it is committed if healthy;
   * otherwise it is abandoned, since another slot armed it, with another state directory.
   */
  | { readonly kind: 'unknown-trial'; readonly isKnown: boolean }
  /** The slot is written and verified, but perhaps not armed: verify it again by reading, arm it, reboot. */
  | { readonly kind: 'arm'; readonly phase: PhaseOf<'staged' | 'trial'> }
  /** It was armed in this very boot: only the reboot is missing. */
  | { readonly kind: 'reboot'; readonly phase: PhaseOf<'trial'> }
  /** The trial slot runs and was approved: only the commit, or its record, is missing. */
  | { readonly kind: 'commit'; readonly phase: PhaseOf<'trial'> }
  /** The trial slot runs: run its health checks. */
  | { readonly kind: 'health-checks' }
  /** The trial slot runs and must not: end the trial and reboot. */
  | { readonly kind: 'leave-trial'; readonly phase: PhaseOf<'trial' | 'rolling-back'> }
  /** The old slot runs again. After a trial without output, the cause is unknown. */
  | ({ readonly kind: 'rolled-back' } & TrialFailure);

/** The state of the gateway at a start, in addition to the journal. */
export interface Found {
  readonly booted: SlotName;
  readonly bootId: string;
  /** The bootloader reports that this boot falls back automatically unless it is committed. */
  readonly onTrial: boolean;
  /** The boot environment shows nothing that a commit of the booted slot would change. */
  readonly isCommitted: boolean;
  /**
   * The last word of the agent in the other slot, which left it and could not write its journal: the code of an error.
   */
  readonly lastWord: string | undefined;
}

/** A trial whose health checks were interrupted this often has failed. */
export const MAX_JUDGEMENTS = 3;

/**
 * Invariant 5: decides by the journal, the slot that really runs, and whether that slot is on trial. The boot
 * environment and the journal cannot change in one step: `staged` may already be armed, and a trial whose boot never
 * happened (power loss) looks like one that fell back, so it is tried again while trials are left. A trial is never
 * committed without health checks if the bootloader contradicts, and a committed slot is never discarded.
 */
export function planRecovery(state: UpdateState, found: Found, hasJournal = true): Recovery {
  const { phase } = state;
  if (found.onTrial && !isTrialOf(phase, found.booted)) {
    return { kind: 'unknown-trial', isKnown: hasJournal && isKnownToRun(state, found.booted) };
  }
  switch (phase.kind) {
    case 'idle':
    case 'lost':
      return { kind: 'keep' };
    case 'staging':
      return { kind: phase.attempt.by === 'service' ? 'keep' : 'fail-staging' };
    case 'staged':
    case 'trial':
      return recoverTrial(phase, found);
    case 'rolling-back':
      return recoverRollback(phase, found);
  }
}

function recoverRollback(phase: PhaseOf<'rolling-back'>, { booted }: Found): Recovery {
  if (booted === phase.slot && hasSlotPayload(phase.firmware)) return { kind: 'leave-trial', phase };
  const { code, reason, fault } = phase;
  return { kind: 'rolled-back', code, reason, fault };
}

/** True if the running trial is the one in the journal. */
function isTrialOf(phase: Phase, booted: SlotName): boolean {
  return 'firmware' in phase && hasSlotPayload(phase.firmware) && phase.slot === booted;
}

/**
 * True if the running slot is known: an operator may have booted it without the agent, or the journal may have lost its
 * record.
 */
function isKnownToRun({ phase, slots, installed, earlier }: UpdateState, booted: SlotName): boolean {
  if (phase.kind === 'lost') return true;
  return slots[booted].seen !== undefined || [installed, ...earlier].some((version) => version?.slot === booted);
}

function recoverTrial(phase: PhaseOf<'staged' | 'trial'>, { booted, bootId, lastWord }: Found): Recovery {
  // without a payload for a slot, the trial runs wherever the agent runs
  if (booted === phase.slot || !hasSlotPayload(phase.firmware)) {
    if (phase.kind === 'staged') return { kind: 'health-checks' };
    if (phase.approved) return { kind: 'commit', phase };
    return phase.judgements < MAX_JUDGEMENTS ? { kind: 'health-checks' } : { kind: 'leave-trial', phase };
  }
  if (phase.kind === 'trial' && bootId === phase.bootId) return { kind: 'reboot', phase };
  if (lastWord !== undefined) return fellBackItself(lastWord);
  if (phase.kind === 'staged' || phase.trialsLeft > 0) return { kind: 'arm', phase };
  return { kind: 'rolled-back', ...fellBack(phase) };
}

function fellBackItself(lastWord: string): Recovery {
  const reason = `the agent in the new slot left it, and could not write that into the journal: ${lastWord}`;
  return { kind: 'rolled-back', code: lastWord, reason, fault: isAmbiguous(lastWord) ? 'world' : 'firmware' };
}

/** The bootloader fell back from a trial. If that happens once, the environment may be the cause. */
export function fellBack({ judgements }: Pick<PhaseOf<'trial'>, 'judgements'>) {
  const reason =
    judgements === 0
      ? 'the bootloader fell back: in the new slot the agent did not start, or could not use its state directory'
      : 'the bootloader fell back before the new slot was committed';
  return { code: 'trial-fell-back', reason, fault: 'world' } as const;
}
