import { AgentError } from '../../system/errors.ts';
import { retry } from '../../system/time/retry.ts';
import type { RetryPolicy } from '../../system/time/retry.ts';
import type { UpdatePorts } from '../choice/order.ts';
import type { GoingBack } from '../outcome.ts';
import type { SlotName } from '../ports.ts';
import { otherSlot } from '../slot.ts';

/** Why a trial is left that has no journal to say so: the code of an error, as the other slot will read it. */
export interface WhyLeft {
  readonly code: string;
  readonly reason: string;
}

/** A hiccup of the disk is no verdict on a firmware. */
const STATE_PATIENCE: RetryPolicy = {
  attempts: 4,
  firstDelayMs: 2_000,
  maxDelayMs: 8_000,
  maxRetryAfterMs: 8_000,
};

/** What is wrong with the state directory, if it stays so. */
export async function findStateTrouble(ports: UpdatePorts, signal: AbortSignal): Promise<WhyLeft | undefined> {
  const { journal, clock, random } = ports;
  try {
    await retry(() => journal.probe(), STATE_PATIENCE, { clock, random }, signal);
    return undefined;
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    return { code: error.code, reason: error.message };
  }
}

/**
 * Ends a trial whose journal cannot say so: the slot is made unbootable with a last word for the other one. Where the boot
 * environment cannot be written, either, the reboot alone ends it: the bootloader falls back by itself. So it does where that
 * this is a trial is a guess: the other slot may be one that never held anything, and the bootloader comes back from that.
 */
export async function leaveWithoutJournal(
  { code, reason }: WhyLeft,
  booted: SlotName,
  ports: UpdatePorts,
  signal: AbortSignal,
): Promise<GoingBack> {
  const { bootloader, machine, log, onProgress } = ports;
  log.error({ booted, code }, `this boot is a trial, and is left: ${reason}`);
  onProgress({ kind: 'phase', phase: 'rolling-back', detail: reason });
  try {
    const { trialIsGuessed = false } = await bootloader.inspect(signal);
    if (!trialIsGuessed) await bootloader.markUnbootable(booted, signal, code);
  } catch (error) {
    if (!(error instanceof AgentError) || isWithoutFallback(error)) throw error;
    log.warn({ code: error.code }, `the bootloader is left to fall back by itself: ${error.message}`);
  }
  await machine.reboot(undefined, signal);
  return { kind: 'rebooting', version: 'what runs', slot: otherSlot(booted), reason, goesBack: true };
}

export function isWithoutFallback({ code }: AgentError): boolean {
  return code === 'no-fallback-slot' || code === 'slot-unbootable';
}
