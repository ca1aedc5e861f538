import assert from 'node:assert';

import { AgentError } from '../../system/errors.ts';
import { flashBoards, hasBoards, restoreBoards } from '../boards.ts';
import { isoTime } from '../choice/order.ts';
import type { UpdatePorts } from '../choice/order.ts';
import { askConsent } from '../hooks/consent.ts';
import { hasSlotPayload } from '../journal/state.ts';
import type { PhaseOf } from '../journal/state.ts';
import type { InstallOutcome, RolledBack, TrialEnd } from '../outcome.ts';
import type { Bootloader, SlotName, WholeSlot } from '../ports.ts';
import { otherSlot } from '../slot.ts';
import { noteWhatRuns } from '../what-runs.ts';
import { findFault, staysFallback } from './blame.ts';
import type { Complaint } from './blame.ts';

/** Arms the staged slot for one boot, once more or for the first time, and starts the reboot. */
export async function startTrial(
  phase: PhaseOf<'staged' | 'trial'>,
  { evidence, reboot }: { readonly evidence: WholeSlot; readonly reboot: boolean },
  ports: UpdatePorts,
  signal: AbortSignal,
): Promise<InstallOutcome> {
  const { journal, bootloader, machine } = ports;
  const { slot, attempt } = phase;
  try {
    await bootloader.tryOnce(slot, evidence, signal);
  } catch (error) {
    if (error instanceof AgentError) await abandon(phase, error, ports, signal);
    throw error;
  }
  const armed = await journal.append({ type: 'trial-armed', bootId: await machine.bootId(), rebootByHand: !reboot });
  const version = attempt.version.name;
  if (!reboot) return { kind: 'reboot-required', version, slot };
  await rebootToTrial(armed.phase, ports, signal);
  return { kind: 'rebooting', version, slot };
}

/** Undefined: what is staged may be armed. Where a hook does not want it, it is given up, and the error is thrown. */
export async function consentToReboot(
  phase: PhaseOf<'staged' | 'trial'>,
  ports: UpdatePorts,
  signal: AbortSignal,
): ReturnType<typeof askConsent> {
  try {
    return await askConsent('before_reboot', phase, ports, signal);
  } catch (error) {
    if (error instanceof AgentError) await abandon(phase, error, ports, signal);
    throw error;
  }
}

/** With the bootloader's argument. A reboot that a person makes by hand is told from it by the journal. */
export async function rebootToTrial(
  phase: PhaseOf<'trial'>,
  { journal, machine, bootloader, onProgress }: Pick<UpdatePorts, 'journal' | 'machine' | 'bootloader' | 'onProgress'>,
  signal: AbortSignal,
): Promise<void> {
  if (phase.rebootAsked === false) await journal.append({ type: 'reboot-asked' });
  onProgress({ kind: 'phase', phase: 'rebooting', detail: `slot ${phase.slot}` });
  await machine.reboot(bootloader.trialRebootArgument, signal);
}

/**
 * It cannot be armed: disarm first, so that a journal that says `idle` never meets an armed slot. Where even that
 * fails, the journal stays as it is and settle() comes back to it.
 */
export async function abandon(
  { slot }: PhaseOf<'staged' | 'trial'>,
  error: AgentError,
  { journal, bootloader, clock }: UpdatePorts,
  signal: AbortSignal,
): Promise<void> {
  await bootloader.markUnbootable(slot, signal);
  const { code, message: reason } = error;
  const failure = { outcome: 'failed', code, reason } as const;
  await journal.append({ type: 'failed', at: isoTime(clock), failure });
}

/**
 * The update runs on trial: a new slot, or new boards under the old one. Flashes the boards once the slot is healthy,
 * and keeps everything if it is healthy with them; else everything goes back.
 */
export async function judgeTrial(ports: UpdatePorts, signal: AbortSignal): Promise<TrialEnd> {
  const { journal } = ports;
  const { phase } = await journal.append({ type: 'judging' });
  const revocation = await findRevocation(phase, ports);
  if (revocation !== undefined) return leaveTrial({ ...revocation, fault: 'firmware' }, ports, signal);
  const complaint = hasSlotPayload(phase.firmware)
    ? await checkHealth(ports, signal)
    : await keepRunning(ports, signal);
  if (complaint !== undefined) return leaveTrial(complaint, ports, signal);
  if (!hasBoards(phase.firmware)) return commitTrial(phase, ports, signal);
  const failure = await tryBoards(phase, ports, signal);
  if (failure !== undefined) return leaveTrial(failure, ports, signal);
  const second = await checkHealth(ports, signal);
  return second === undefined ? commitTrial(phase, ports, signal) : leaveTrial(second, ports, signal);
}

/** A list that was taken while the firmware waited, or ran: it is not kept, as long as there is a way back. */
export async function findRevocation(
  { attempt, firmware }: PhaseOf<'staged' | 'trial'>,
  { revoked }: UpdatePorts,
): Promise<{ readonly code: 'trust-withdrawn'; readonly reason: string } | undefined> {
  const why = attempt.by === 'rollback' ? undefined : await revoked?.(firmware);
  return why === undefined ? undefined : { code: 'trust-withdrawn', reason: `version ${attempt.version.name} ${why}` };
}

/** A person keeps the trial: health is not asked, but the boards belong to it. */
export async function keepTrial(ports: UpdatePorts, signal: AbortSignal): Promise<TrialEnd> {
  const { phase } = await ports.journal.append({ type: 'judging' });
  const failure = await tryBoards(phase, ports, signal);
  return failure === undefined ? commitTrial(phase, ports, signal) : leaveTrial(failure, ports, signal);
}

async function tryBoards(
  phase: PhaseOf<'trial'>,
  ports: UpdatePorts,
  signal: AbortSignal,
): Promise<Complaint | undefined> {
  try {
    await flashBoards(phase, ports, signal);
    return undefined;
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    return { code: error.code, reason: error.message, fault: error.remedy === 'give-up' ? 'firmware' : 'world' };
  }
}

/**
 * Boards alone are on trial: what runs was committed before, and its boot counters are renewed as at every start. Boards
 * that were meant for another slot than the one that the bootloader went back to meanwhile are not flashed under this one.
 */
async function keepRunning(ports: UpdatePorts, signal: AbortSignal): Promise<Complaint | undefined> {
  const booted = await ports.bootloader.bootedSlot(signal);
  const committed = ports.journal.state.installed?.slot ?? booted;
  await keepSlot(booted, ports, signal);
  // It may have been kept before, by who found it to run.
  const expected = ports.journal.state.fellFrom?.slot ?? committed;
  if (expected === booted) return undefined;
  const reason = `slot ${booted} runs, no longer slot ${expected}, for which the boards were meant`;
  return { code: 'trial-fell-back', reason, fault: 'world' };
}

/** What runs stays. The journal knows first: a cut between them leaves nothing that is committed and not installed. */
export async function keepSlot(booted: SlotName, ports: UpdatePorts, signal: AbortSignal): Promise<void> {
  const { journal, bootloader, log } = ports;
  const expected = journal.state.installed?.slot;
  if (expected !== undefined && expected !== booted) {
    log.warn({ expected, booted }, 'another slot runs than the one that was committed');
    await journal.append({ type: 'slots-swapped', booted });
  }
  await bootloader.commit(booted, signal);
  await noteWhatRuns(booted, ports);
}

async function checkHealth({ health, onProgress }: UpdatePorts, signal: AbortSignal): Promise<Complaint | undefined> {
  onProgress({ kind: 'phase', phase: 'health' });
  const complaint = await health.check(signal);
  return complaint && { ...complaint, fault: complaint.code === 'unhealthy' ? 'firmware' : 'world' };
}

/**
 * The verdict is made durable first, so that it is not made twice; then the bootloader's write decides, and the journal
 * follows. Where a cut comes between, settle() goes on.
 */
export async function commitTrial(phase: PhaseOf<'trial'>, ports: UpdatePorts, signal: AbortSignal): Promise<TrialEnd> {
  const { journal, bootloader, clock } = ports;
  if (!phase.approved) await journal.append({ type: 'approved' });
  const slot = await bootloader.bootedSlot(signal);
  assert(slot === phase.slot || !hasSlotPayload(phase.firmware), `slot ${phase.slot} is on trial, and ${slot} runs`);
  ports.onProgress({ kind: 'phase', phase: 'committing', detail: `slot ${slot}` });
  await bootloader.commit(slot, signal);
  const owesHook = ports.wantsHook?.('after_commit') ?? false;
  await journal.append({ type: 'committed', at: isoTime(clock), slot, owesHook });
  return { kind: 'installed', version: phase.attempt.version.name };
}

export async function leaveTrial(why: Complaint, ports: UpdatePorts, signal: AbortSignal): Promise<TrialEnd> {
  const { phase } = await ports.journal.append({ type: 'rollback-started', ...why });
  return rollBack(phase, ports, signal);
}

/**
 * Boards get back what they held, the slot that runs must not boot again, and the machine goes back to the other. A board
 * that does not answer now gets its image from there (settle.ts).
 */
export async function rollBack(
  phase: PhaseOf<'rolling-back'>,
  ports: UpdatePorts,
  signal: AbortSignal,
): Promise<TrialEnd> {
  const { bootloader, machine, log } = ports;
  ports.onProgress({ kind: 'phase', phase: 'rolling-back', detail: phase.reason });
  if (!hasSlotPayload(phase.firmware)) return finishRollback(phase, ports, signal);
  try {
    await restoreBoards(phase, ports, signal);
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    log.warn({ code: error.code }, 'a board is restored after the reboot');
  }
  await giveUpSlot(phase, bootloader, signal);
  const [version, slot] = [phase.attempt.version.name, otherSlot(phase.slot)];
  if (ports.rebootByHand === true) {
    const reason = `${phase.reason}; slot ${slot} starts with the next boot: agent reboot`;
    return { kind: 'rolled-back', version, reason };
  }
  await machine.reboot(undefined, signal);
  return { kind: 'rebooting', version, slot, reason: phase.reason, goesBack: true };
}

/** It must not boot again; but the one that a person wanted to go back to stays what it was, unless it was found bad. */
export async function giveUpSlot(
  { slot, attempt, fault }: PhaseOf<'rolling-back'>,
  bootloader: Bootloader,
  signal: AbortSignal,
): Promise<void> {
  if (staysFallback(attempt, fault)) await bootloader.commit(otherSlot(slot), signal);
  else await bootloader.markUnbootable(slot, signal);
}

/** The old slot runs, or never ceased to: boards get back what they held, and the attempt ends in the journal. */
export async function finishRollback(
  phase: PhaseOf<'rolling-back'>,
  ports: UpdatePorts,
  signal: AbortSignal,
): Promise<RolledBack> {
  const { journal, clock } = ports;
  const given = await restoreBoards(phase, ports, signal);
  const found = await findFault(phase, ports.health, signal);
  const code = given === undefined ? found.code : 'board-not-restored';
  const reason = given === undefined ? found.reason : `${found.reason}; then: ${given.message}`;
  const owesHook = ports.wantsHook?.('after_rollback') ?? false;
  await journal.append({ type: 'rolled-back', at: isoTime(clock), code, reason, fault: found.fault, owesHook });
  return { kind: 'rolled-back', version: phase.attempt.version.name, reason };
}
