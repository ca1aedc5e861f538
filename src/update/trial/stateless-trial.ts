import { AgentError, valueOrError } from '../../system/errors.ts';
import { retry } from '../../system/time/retry.ts';
import type { RetryPolicy } from '../../system/time/retry.ts';
import { hasSlotPayload } from '../journal/state.ts';
import type { PhaseOf, TrialFailure } from '../journal/state.ts';
import type { RollbackReboot, TrialResult } from '../outcome.ts';
import type { UpdatePorts } from '../policy/install-request.ts';
import type { SlotName } from '../ports.ts';
import { otherSlot } from '../slot.ts';
import { commitTrial, findRevocation, abandonTrial } from './trial.ts';

/** The reason for abandoning a trial without a usable journal: the code of an error, which the other slot will read. */
export type AbandonReason = Pick<TrialFailure, 'code' | 'reason'>;

/** A short failure of the disk is not evidence about a release. */
const STATE_PATIENCE: RetryPolicy = {
  attempts: 4,
  firstDelayMs: 2_000,
  maxDelayMs: 8_000,
  maxRetryAfterMs: 8_000,
};

/** Returns the problem of the state directory, if it persists. */
export async function findStateTrouble(ports: UpdatePorts): Promise<AbandonReason | undefined> {
  const { journal, clock, random } = ports;
  const probe = retry(() => journal.probe(), STATE_PATIENCE, { clock, random }, ports.signal);
  const trouble = await valueOrError<unknown>(probe);
  return trouble instanceof AgentError ? { code: trouble.code, reason: trouble.message } : undefined;
}

/**
 * Guarantee `trial-without-state`: ends a trial that the journal cannot record. The slot is made unbootable, with an
 * exit reason for the other slot. If the boot environment cannot be written either, the reboot alone ends the trial,
 * since the bootloader falls back automatically. The same applies if the trial is only inferred: the other slot may be
 * empty, and the bootloader then returns to this one.
 */
export async function abandonWithoutJournal(
  { code, reason }: AbandonReason,
  booted: SlotName,
  ports: UpdatePorts,
): Promise<RollbackReboot> {
  const { bootloader, machine, log, onProgress } = ports;
  log.error({ booted, code }, `this boot is a trial, and is abandoned: ${reason}`);
  onProgress({ kind: 'phase', phase: 'rolling-back', detail: reason });
  try {
    const { trialIsGuessed = false } = await bootloader.inspect(ports.signal);
    if (!trialIsGuessed) await bootloader.markUnbootable(booted, ports.signal, code);
  } catch (error) {
    if (!(error instanceof AgentError) || isWithoutFallback(error)) throw error;
    log.warn({ code: error.code }, `the reboot alone ends the trial: ${error.message}`);
  }
  await machine.reboot(undefined, ports.signal);
  return { kind: 'rebooting', version: 'the running version', slot: otherSlot(booted), reason, goesBack: true };
}

export function isWithoutFallback({ code }: AgentError): boolean {
  return code === 'no-fallback-slot' || code === 'slot-unbootable';
}

/**
 * Guarantee `revocation`: commits a trial that was approved before a restart, unless a list has forbidden it since. A
 * slot that the bootloader has already committed stays. If nothing can be written, it is abandoned like any other
 * trial: a list that forbids it could not be stored, either.
 */
export async function commitApproved(
  phase: PhaseOf<'trial'>,
  ports: UpdatePorts,
): Promise<TrialResult | RollbackReboot> {
  const revocation = await findRevocation(phase, ports);
  if (revocation === undefined) return commitTrial(phase, ports);
  const isDecided = hasSlotPayload(phase.firmware) && !(await ports.bootloader.onTrial(ports.signal));
  return isDecided ? commitTrial(phase, ports) : abandonTrial(revocation, ports);
}
