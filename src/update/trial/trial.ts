import assert from 'node:assert';

import { AgentError, mapError, valueOrError } from '../../system/errors.ts';
import { restoreFailureCode, flashBoards, hasBoards, restoreBoards } from '../boards/boards.ts';
import { askConsent } from '../hooks/consent.ts';
import { keepsFallback } from '../journal/endings.ts';
import { hasSlotPayload, hasTouchedBoards } from '../journal/state.ts';
import type { PhaseOf, TrialFailure } from '../journal/state.ts';
import { attempted, undone } from '../outcome.ts';
import type { InstallOutcome, RolledBack, TrialResult } from '../outcome.ts';
import { isoTime } from '../policy/install-request.ts';
import type { UpdatePorts } from '../policy/install-request.ts';
import type { Bootloader, SlotName, WholeSlot } from '../ports.ts';
import { recordRunningVersion } from '../running-version.ts';
import { otherSlot } from '../slot.ts';
import { findCause } from './health.ts';

/** Arms the staged slot for one boot, for the first time or again, and starts the reboot. */
export async function startTrial(
  phase: PhaseOf<'staged' | 'trial'>,
  { evidence, reboot }: { readonly evidence: WholeSlot; readonly reboot: boolean },
  ports: UpdatePorts,
): Promise<InstallOutcome> {
  const { journal, bootloader, machine } = ports;
  const { slot } = phase;
  await orAbort(phase, ports, bootloader.tryOnce(slot, evidence, ports.signal));
  const armed = await journal.append({ type: 'trial-armed', bootId: await machine.bootId(), rebootByHand: !reboot });
  if (!reboot) return { kind: 'reboot-required', ...stagedIn(armed.phase) };
  await rebootToTrial(armed.phase, ports);
  return { kind: 'rebooting', ...stagedIn(armed.phase) };
}

/** Returns the members of an outcome that name the staged version. */
export function stagedIn({ attempt, slot }: PhaseOf<'staged' | 'trial'>) {
  return { ...attempted(attempt), slot };
}

/**
 * Asks for consent to the reboot. Returns undefined if the staged update may be armed. If a hook rejects, it is
 * discarded, and the error thrown.
 */
export async function consentToReboot(
  phase: PhaseOf<'staged' | 'trial'>,
  ports: UpdatePorts,
): ReturnType<typeof askConsent> {
  return orAbort(phase, ports, askConsent('before_reboot', phase, ports));
}

/** Ends the attempt if this step fails. */
async function orAbort<T>(phase: PhaseOf<'staged' | 'trial'>, ports: UpdatePorts, step: Promise<T>): Promise<T> {
  return mapError(step, async (error) => {
    if (error instanceof AgentError) await abortAttempt(phase, error, ports);
    return error;
  });
}

/** Reboots with the bootloader's argument. The journal distinguishes this reboot from one by hand. */
export async function rebootToTrial(
  phase: PhaseOf<'trial'>,
  { journal, machine, bootloader, onProgress, signal }: UpdatePorts,
): Promise<void> {
  if (phase.rebootAsked === false) await journal.append({ type: 'reboot-asked' });
  onProgress({ kind: 'phase', phase: 'rebooting', detail: `slot ${phase.slot}` });
  await machine.reboot(bootloader.trialRebootArgument, signal);
}

/**
 * Ends an attempt that cannot be armed. It is disarmed first, so that an `idle` journal never meets an armed slot. If
 * even that fails, the journal stays as it is, and the recovery tries again. An interrupted trial may have touched boards:
 * they are restored.
 */
export async function abortAttempt(
  phase: PhaseOf<'staged' | 'trial'>,
  error: AgentError,
  ports: UpdatePorts,
): Promise<void> {
  const { journal, bootloader, clock } = ports;
  await bootloader.markUnbootable(phase.slot, ports.signal);
  const { code, message: reason } = error;
  if (hasTouchedBoards(phase)) {
    const { phase: leaving } = await journal.append({ type: 'rollback-started', code, reason, fault: 'world' });
    await finishRollback(leaving, ports);
    return;
  }
  const failure = { outcome: 'failed', code, reason } as const;
  await journal.append({ type: 'failed', at: isoTime(clock), failure });
}

/**
 * Guarantee `trial`: runs the health checks of the update on trial, which is a new slot, or new boards with the old
 * one. Flashes the boards once the slot is healthy, and commits everything if it is healthy with them; otherwise
 * everything is rolled back.
 */
export async function evaluateTrial(ports: UpdatePorts): Promise<TrialResult> {
  const { journal } = ports;
  const { phase } = await journal.append({ type: 'health-check-started' });
  const failure =
    (await findRevocation(phase, ports)) ??
    (hasSlotPayload(phase.firmware) ? await checkHealth(ports) : await keepExpectedSlot(ports)) ??
    (hasBoards(phase.firmware) ? ((await tryBoards(phase, ports)) ?? (await checkHealth(ports))) : undefined);
  return failure === undefined ? commitTrial(phase, ports) : abandonTrial(failure, ports);
}

/**
 * Guarantee `revocation`: returns why a list, applied while the update waited or ran, forbids its commit. Undefined if
 * none does, or if an operator has forced a rollback.
 */
export async function findRevocation(
  { attempt, firmware }: PhaseOf<'staged' | 'trial'>,
  { revoked }: UpdatePorts,
): Promise<(TrialFailure & { readonly code: 'no-longer-trusted' }) | undefined> {
  const isForcedBack = attempt.by === 'rollback' && attempt.forced === true;
  const why = isForcedBack ? undefined : await revoked?.(firmware);
  const reason = `version ${attempt.version.name} ${why}`;
  return why === undefined ? undefined : { code: 'no-longer-trusted', reason, fault: 'firmware' };
}

/** Commits the trial for an operator: health does not count, but its boards are flashed. */
export async function commitWithoutHealthChecks(ports: UpdatePorts): Promise<TrialResult> {
  const { phase } = await ports.journal.append({ type: 'health-check-started' });
  const failure = await tryBoards(phase, ports);
  return failure === undefined ? commitTrial(phase, ports) : abandonTrial(failure, ports);
}

/** Permanent errors that are the release's. Any other is of a board, its wiring, the configuration or the gateway. */
const errorsOfRelease = /^(image-|board-runs-other$|package-(?!backup-failed$))/;

async function tryBoards(phase: PhaseOf<'trial'>, ports: UpdatePorts): Promise<TrialFailure | undefined> {
  const failure = await valueOrError<unknown>(flashBoards(phase, ports));
  if (!(failure instanceof AgentError)) return undefined;
  const { code, message: reason, remedy } = failure;
  return { code, reason, fault: remedy === 'give-up' && errorsOfRelease.test(code) ? 'firmware' : 'world' };
}

/**
 * Keeps the running slot while boards alone are on trial: it was committed before, and its boot counters are renewed as
 * at every start. Throws if the bootloader fell back to another slot since, for which the boards were not meant.
 */
async function keepExpectedSlot(ports: UpdatePorts): Promise<TrialFailure | undefined> {
  const booted = await ports.bootloader.bootedSlot(ports.signal);
  const committed = ports.journal.state.installed?.slot ?? booted;
  await keepSlot({ booted }, ports);
  // it may have been committed since it was found running
  const expected = ports.journal.state.fellFrom?.slot ?? committed;
  if (expected === booted) return undefined;
  const reason = `slot ${booted} runs, no longer slot ${expected}, for which the boards were meant`;
  return { code: 'trial-fell-back', reason, fault: 'world' };
}

/** The running slot. With the other members, as an update check found it, it is committed only once in a boot. */
export interface RunningSlot {
  readonly booted: SlotName;
  readonly bootId?: string;
  readonly isCommitted?: boolean;
}

/** The boots in which this process committed the running slot. */
const committedIn = new WeakMap<Bootloader, string | undefined>();

/**
 * Commits the running slot, unless this process did so in this boot and the boot environment still shows it. Every boot
 * needs one commit: a handler may count boots in a place that cannot be read.
 */
export async function renewCommit(
  { booted, bootId, isCommitted = false }: RunningSlot,
  { bootloader, signal }: UpdatePorts,
): Promise<void> {
  if (isCommitted && bootId !== undefined && committedIn.get(bootloader) === bootId) return;
  await bootloader.commit(booted, signal);
  committedIn.set(bootloader, bootId);
}

/**
 * Keeps the running slot. The journal is written first, so that no slot is committed but not installed after a power
 * loss.
 */
export async function keepSlot(running: RunningSlot, ports: UpdatePorts): Promise<void> {
  const { booted } = running;
  const { journal, log } = ports;
  const expected = journal.state.installed?.slot;
  if (expected !== undefined && expected !== booted) {
    log.warn({ expected, booted }, 'another slot runs than the committed one');
    await journal.append({ type: 'slots-swapped', booted });
  }
  await renewCommit(running, ports);
  await recordRunningVersion(booted, ports);
}

async function checkHealth({ health, onProgress, signal }: UpdatePorts): Promise<TrialFailure | undefined> {
  onProgress({ kind: 'phase', phase: 'health' });
  const complaint = await health.check(signal);
  return complaint && { ...complaint, fault: complaint.code === 'unhealthy' ? 'firmware' : 'world' };
}

/**
 * Invariant 3: commits the trial. The result of the health checks is made durable first, so that they run only once;
 * then the bootloader's write decides, and the journal follows. After an interruption in between, the recovery continues.
 */
export async function commitTrial(phase: PhaseOf<'trial'>, ports: UpdatePorts): Promise<TrialResult> {
  const { journal, bootloader, clock } = ports;
  if (!phase.approved) await journal.append({ type: 'approved' });
  const slot = await bootloader.bootedSlot(ports.signal);
  assert(slot === phase.slot || !hasSlotPayload(phase.firmware), `slot ${phase.slot} is on trial, and ${slot} runs`);
  const detail = hasSlotPayload(phase.firmware) ? { detail: `slot ${slot}` } : {};
  ports.onProgress({ kind: 'phase', phase: 'committing', ...detail });
  await bootloader.commit(slot, ports.signal);
  const owesHook = ports.wantsHook?.('after_commit') ?? false;
  await journal.append({ type: 'committed', at: isoTime(clock), slot, owesHook });
  return { kind: 'installed', version: phase.attempt.version.name };
}

export async function abandonTrial(why: TrialFailure, ports: UpdatePorts): Promise<TrialResult> {
  const { phase } = await ports.journal.append({ type: 'rollback-started', ...why });
  return rollBack(phase, ports);
}

/**
 * Rolls back: the boards are restored, the running slot is made unbootable, and the machine reboots into the other one.
 * A board that does not respond now is restored from there (recovery.ts).
 */
export async function rollBack(phase: PhaseOf<'rolling-back'>, ports: UpdatePorts): Promise<TrialResult> {
  const { machine, log } = ports;
  ports.onProgress({ kind: 'phase', phase: 'rolling-back', detail: phase.reason });
  if (!hasSlotPayload(phase.firmware)) return finishRollback(phase, ports);
  const failure = await valueOrError(restoreBoards(phase, ports));
  if (failure instanceof AgentError) log.warn({ code: failure.code }, 'a board is restored after the reboot');
  await disableSlot(phase, ports);
  const slot = otherSlot(phase.slot);
  const { installed } = ports.journal.state;
  if (ports.rebootByHand === true) {
    const reason = `${phase.reason}; slot ${slot} starts with the next boot: agent reboot`;
    return { kind: 'rolled-back', ...undone(phase.attempt, installed), reason };
  }
  await machine.reboot(undefined, ports.signal);
  return { kind: 'rebooting', ...undone(phase.attempt, installed), slot, reason: phase.reason, goesBack: true };
}

/** Makes the slot unbootable. The target of a manual rollback stays bootable, unless it was found bad. */
export async function disableSlot(
  { slot, attempt, fault }: PhaseOf<'rolling-back'>,
  { bootloader, signal }: UpdatePorts,
): Promise<void> {
  if (keepsFallback(attempt, fault)) await bootloader.commit(otherSlot(slot), signal, true);
  else await bootloader.markUnbootable(slot, signal);
}

/**
 * Ends a rollback while the old slot runs, or still runs: the boards get back what they held, and the attempt ends in
 * the journal.
 */
export async function finishRollback(phase: PhaseOf<'rolling-back'>, ports: UpdatePorts): Promise<RolledBack> {
  const { journal, clock } = ports;
  const given = await restoreBoards(phase, ports);
  const found = await findCause(phase, ports.health, ports.signal);
  const code = given === undefined ? found.code : restoreFailureCode(phase.firmware);
  const reason = given === undefined ? found.reason : `${found.reason}; then: ${given.message}`;
  const owesHook = ports.wantsHook?.('after_rollback') ?? false;
  await journal.append({ type: 'rolled-back', at: isoTime(clock), code, reason, fault: found.fault, owesHook });
  return { kind: 'rolled-back', ...undone(phase.attempt, journal.state.installed), reason };
}
