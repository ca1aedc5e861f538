import type { SlotName } from './ports.ts';
import { hasSlotPayload } from './state.ts';
import type { Phase, PhaseOf } from './state.ts';

/** What to do about the journal that is found at start-up. */
export type Recovery =
  /** Keep what runs: renew its boot counters. */
  | { readonly kind: 'keep' }
  /** Nothing is known of what runs: keep it only if it is healthy. */
  | { readonly kind: 'keep-if-healthy' }
  /** An interrupted staging from a local file cannot go on by itself. */
  | { readonly kind: 'give-up-staging' }
  /** An interrupted staging goes on with the next look at the service. */
  | { readonly kind: 'resume-staging' }
  /** Written and verified, but not known to be armed: verify again by reading, arm, reboot. */
  | { readonly kind: 'arm' }
  /** Armed in this very boot: only the reboot is missing. */
  | { readonly kind: 'reboot' }
  /** The same, but a person wanted to do that. */
  | { readonly kind: 'await-reboot' }
  /** The trial slot runs and was approved: only the commit, or its record, is missing. */
  | { readonly kind: 'commit' }
  /** The trial slot runs: judge it. */
  | { readonly kind: 'judge' }
  /** The trial slot runs and must not: end it and reboot. */
  | { readonly kind: 'leave-trial' }
  /** The old slot runs again. */
  | { readonly kind: 'rolled-back'; readonly code: string; readonly reason: string };

/** A trial that is judged this often without an end is taken as a failure. */
export const MAX_JUDGEMENTS = 3;

/**
 * Decides from the journal and the slot that really runs. The boot environment and the journal cannot change in one
 * step, so `staged` may already be armed, and a trial whose boot never happened (power cut) looks like one that fell
 * back: it is tried again as long as trials are left.
 */
export function recover(phase: Phase, bootedSlot: SlotName, bootId: string): Recovery {
  switch (phase.kind) {
    case 'idle':
      return { kind: 'keep' };
    case 'lost':
      return { kind: 'keep-if-healthy' };
    case 'staging':
      return phase.attempt.by === 'service' ? { kind: 'resume-staging' } : { kind: 'give-up-staging' };
    case 'staged':
      return runsHere(phase, bootedSlot) ? { kind: 'judge' } : { kind: 'arm' };
    case 'trial':
      return recoverTrial(phase, bootedSlot, bootId);
    case 'rolling-back':
      if (bootedSlot === phase.slot && hasSlotPayload(phase.firmware)) return { kind: 'leave-trial' };
      return { kind: 'rolled-back', code: phase.code, reason: phase.reason };
  }
}

function recoverTrial(phase: PhaseOf<'trial'>, bootedSlot: SlotName, bootId: string): Recovery {
  if (runsHere(phase, bootedSlot)) {
    if (phase.approved) return { kind: 'commit' };
    return { kind: phase.judgements < MAX_JUDGEMENTS ? 'judge' : 'leave-trial' };
  }
  if (bootId === phase.bootId) return { kind: phase.rebootByHand ? 'await-reboot' : 'reboot' };
  if (phase.trialsLeft > 0) return { kind: 'arm' };
  return { kind: 'rolled-back', code: 'trial-fell-back', reason: fellBack(phase.judgements) };
}

/** Without a payload for a slot, the trial is wherever the agent runs. */
function runsHere(phase: PhaseOf<'staged'> | PhaseOf<'trial'>, bootedSlot: SlotName): boolean {
  return bootedSlot === phase.slot || !hasSlotPayload(phase.firmware);
}

function fellBack(judgements: number): string {
  return judgements === 0
    ? 'the bootloader fell back: the new slot did not start the agent'
    : 'the bootloader fell back before the new slot was committed';
}
