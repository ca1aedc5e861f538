import { AgentError, valueOrError } from '../../system/errors.ts';
import { beginBoardSync } from '../boards/earlier-boards.ts';
import { evidenceFromReading, evidenceOfHistory, evidenceOfSlot } from '../evidence.ts';
import { isAmbiguous } from '../journal/endings.ts';
import { hasSlotPayload } from '../journal/state.ts';
import type { PhaseOf, TrialFailure, UpdateState } from '../journal/state.ts';
import { attempted } from '../outcome.ts';
import type { Outcome } from '../outcome.ts';
import { isoTime } from '../policy/install-request.ts';
import type { UpdatePorts } from '../policy/install-request.ts';
import { deferredOutcome } from '../policy/may-try.ts';
import type { SlotName, WholeSlot } from '../ports.ts';
import { otherSlot } from '../slot.ts';
import { verifyPreviousSlot, readPartitions, slotsTargets } from '../whole-slot.ts';
import { causeWithoutReport } from './health.ts';
import { planRecovery } from './plan-recovery.ts';
import type { Found, Recovery } from './plan-recovery.ts';
import { discardUntrusted, discardStaged } from './staged.ts';
import { commitApproved, findStateTrouble, isWithoutFallback, abandonWithoutJournal } from './stateless-trial.ts';
import type { AbandonReason } from './stateless-trial.ts';
import {
  consentToReboot,
  finishRollback,
  disableSlot,
  evaluateTrial,
  keepSlot,
  rollBack,
  rebootToTrial,
  renewCommit,
  stagedIn,
  startTrial,
} from './trial.ts';
import type { RunningSlot } from './trial.ts';

/**
 * Invariant 5, guarantee `power-cut`, guarantee `kill`: at a start, completes or undoes an interrupted update according
 * to the journal. May be repeated.
 */
export async function recoverUpdate(ports: UpdatePorts): Promise<Outcome> {
  const { journal, bootloader, log } = ports;
  await journal.refresh();
  const booted = await bootloader.bootedSlot(ports.signal);
  const found = await readBootState(booted, ports);
  if (missedTrialBoot(journal.state, found, ports)) await journal.append({ type: 'trial-missed' });
  const { phase } = journal.state;
  const recovery = planRecovery(journal.state, found, journal.missing === undefined);
  if (recovery.kind !== 'keep') log.info({ phase: phase.kind, booted, recovery: recovery.kind }, 'recovering');
  const trouble = found.onTrial && needsJournal(recovery) ? await findStateTrouble(ports) : undefined;
  return trouble === undefined ? apply(recovery, found, ports) : abandonWithoutJournal(trouble, booted, ports);
}

async function readBootState(booted: SlotName, { bootloader, machine, signal }: UpdatePorts): Promise<Found> {
  const { slots, onTrial, committed } = await bootloader.inspect(signal);
  const { lastWord } = slots[otherSlot(booted)];
  const bootId = await machine.bootId();
  return { booted, bootId, onTrial: onTrial[booted], isCommitted: committed[booted], lastWord };
}

async function apply(recovery: Recovery, found: Found, ports: UpdatePorts): Promise<Outcome> {
  const { booted } = found;
  switch (recovery.kind) {
    case 'keep':
      return keepRunning(found, ports);
    case 'unknown-trial':
      return judgeUnknown(recovery.isKnown, booted, ports);
    case 'fail-staging':
      return failStaging(booted, ports);
    case 'arm':
    case 'reboot':
      return resumeStaged(recovery, found, ports);
    case 'commit':
      return commitApproved(recovery.phase, ports);
    case 'health-checks':
      return evaluateTrial(ports);
    case 'leave-trial':
      return abandonOrStay(recovery.phase, booted, ports);
    case 'rolled-back':
      return rolledBack(recovery, booted, ports);
  }
}

/** Continues with an update staged before this start, if it is still trusted. */
async function resumeStaged(
  recovery: Extract<Recovery, { kind: 'arm' | 'reboot' }>,
  found: Found,
  ports: UpdatePorts,
): Promise<Outcome> {
  if ((await discardUntrusted(recovery.phase, ports)) !== undefined) return { kind: 'settled' };
  return recovery.kind === 'arm' ? rearm(recovery.phase, found, ports) : rebootArmed(recovery.phase, ports);
}

async function rebootArmed(phase: PhaseOf<'trial'>, ports: UpdatePorts): Promise<Outcome> {
  if (phase.rebootByHand || ports.rebootByHand === true) return { kind: 'reboot-required', ...stagedIn(phase) };
  const deferral = deferredOutcome(phase.attempt, ports.deferReboot);
  if (deferral !== undefined) return deferral;
  await rebootToTrial(phase, ports);
  return { kind: 'rebooting', ...stagedIn(phase) };
}

/** The health checks of a trial were interrupted again and again. */
const NEVER_JUDGED = {
  code: 'health-unknown',
  reason: 'the new firmware was never found healthy',
  fault: 'world',
} as const;

/**
 * Abandons the trial. If no other slot boots, the running one stays, whatever its state, and the next version has to
 * fix it.
 */
async function abandonOrStay(
  phase: PhaseOf<'trial' | 'rolling-back'>,
  booted: SlotName,
  ports: UpdatePorts,
): Promise<Outcome> {
  const { journal, clock, log } = ports;
  const leaving = await rollingBack(NEVER_JUDGED, ports);
  try {
    return await rollBack(leaving, ports);
  } catch (error) {
    if (!(error instanceof AgentError) || !isWithoutFallback(error)) throw error;
    const reason = `${leaving.reason}; it stays all the same: ${error.message}`;
    log.error({ booted, code: error.code }, reason);
    await keepSlot({ booted }, ports);
    const { fault } = leaving;
    await journal.append({ type: 'rolled-back', at: isoTime(clock), code: error.code, reason, fault });
    return { kind: 'rolled-back', ...attempted(phase.attempt), reason };
  }
}

/**
 * Keeps the running slot by renewing its boot counters, which run down with every boot. If the phase was unreadable,
 * the update in progress has ended: according to the bootloader, the running slot was committed.
 */
export async function keepRunning(running: RunningSlot, ports: UpdatePorts): Promise<Outcome> {
  const { journal, clock } = ports;
  await keepSlot(running, ports);
  const following = await beginBoardSync(ports);
  if (following !== undefined) return finishRollback(following, ports);
  const isReadable = journal.missing === undefined;
  if (isReadable && journal.state.phase.kind === 'lost')
    await journal.append({ type: 'recovered', at: isoTime(clock) });
  return { kind: 'settled' };
}

/** Judges a trial that this journal did not arm. If it is not healthy, it is left, and the bootloader falls back. */
async function judgeUnknown(isKnown: boolean, booted: SlotName, ports: UpdatePorts): Promise<Outcome> {
  const stateTrouble = isKnown ? await findStateTrouble(ports) : unknownTrial(ports);
  const complaint = stateTrouble ?? (await ports.health.check(ports.signal));
  if (complaint !== undefined) return abandonWithoutJournal(complaint, booted, ports);
  return keepRunning({ booted }, ports);
}

function unknownTrial({ journal }: UpdatePorts): AbandonReason {
  const { missing } = journal;
  const reason = missing?.message ?? 'the journal has no record of this trial, so it is not the one of the old slot';
  return { code: missing?.code ?? 'state-unavailable', reason };
}

/**
 * True if a running trial continues with a write to the journal. If nothing can be written, the trial is abandoned, and
 * the old slot reports why.
 */
function needsJournal(recovery: Recovery): boolean {
  if (recovery.kind === 'leave-trial') return recovery.phase.kind === 'trial';
  return recovery.kind === 'commit' || recovery.kind === 'health-checks';
}

async function failStaging(booted: SlotName, ports: UpdatePorts): Promise<Outcome> {
  await keepSlot({ booted }, ports);
  const failure = {
    outcome: 'failed',
    code: 'interrupted',
    reason: 'the installation from a file was interrupted',
  } as const;
  await ports.journal.append({ type: 'failed', at: isoTime(ports.clock), failure });
  return { kind: 'settled' };
}

/**
 * Arms a trial again, under the conditions of its order. The running slot is renewed first, since each fall back used
 * up one of its boots, and the next one needs them. If the journal cannot be written, nothing more is written to the
 * boot environment, so that the two do not change back and forth.
 */
async function rearm(phase: PhaseOf<'staged' | 'trial'>, found: Found, ports: UpdatePorts): Promise<Outcome> {
  // also if the trial then has to wait: the trial guard learns from this commit that the running slot is committed, and
  // a slot armed before a kill is disarmed
  await renewCommit(found, ports);
  const wait = deferredOutcome(phase.attempt, ports.deferResume) ?? (await consentToReboot(phase, ports));
  if (wait !== undefined) return wait;
  await ports.journal.probe();
  const evidence = await valueOrError(readEvidence(phase, ports));
  if (evidence instanceof AgentError) {
    await discardStaged(phase, evidence, ports);
    return { kind: 'settled' };
  }
  const reboot = ports.rebootByHand !== true && !waitsForPerson(phase);
  return startTrial(phase, { evidence, reboot }, ports);
}

/** True if the agent waits for an operator who wanted to reboot manually. It waits once. */
function waitsForPerson(phase: PhaseOf<'staged' | 'trial'>): boolean {
  const wasAsked = phase.kind === 'trial' && phase.rebootAsked === true;
  return phase.attempt.rebootByHand === true && !wasAsked;
}

/** True if another reboot came first, for a bootloader that boots a trial only by the reboot that requests it. */
function missedTrialBoot({ phase }: UpdateState, { booted, bootId }: Found, { bootloader }: UpdatePorts): boolean {
  if (bootloader.trialRebootArgument === undefined || phase.kind !== 'trial') return false;
  return phase.rebootAsked === false && booted !== phase.slot && bootId !== phase.bootId;
}

/**
 * Verifies by reading the content that was verified when it was written; in the target of a manual rollback, as much as
 * possible.
 */
async function readEvidence(
  { attempt, firmware, slot }: PhaseOf<'staged' | 'trial'>,
  ports: UpdatePorts,
): Promise<WholeSlot> {
  if (attempt.by === 'rollback') {
    const { journal } = ports;
    const { read: before, unverified } = await verifyPreviousSlot(slot, ports);
    const said = new Set(attempt.unverified);
    if (unverified.some((partition) => !said.has(partition)))
      await journal.append({ type: 'found-unverified', unverified });
    return evidenceOfHistory(firmware, slot, journal.state.slots[slot], before);
  }
  const kept = new Map<string, string>();
  for (const { target, sizeBytes, kind, digest } of firmware.payloads) {
    const found = ports.targets.get(target);
    if (kind !== 'slots' && found !== undefined && found.kind !== 'slots')
      kept.set(target, await found.digestOf(sizeBytes, ports.signal, digest));
  }
  const payloads = firmware.payloads.filter(({ kind }) => kind !== 'slots');
  const verified = evidenceFromReading({ ...firmware, payloads }, kept);
  const targets = slotsTargets(ports.targets.values());
  const read = await readPartitions(slot, targets, ports);
  return evidenceOfSlot(verified, { slot, configured: targets.map(({ name }) => name), staged: [], read });
}

async function rolledBack(failure: TrialFailure, booted: SlotName, ports: UpdatePorts): Promise<Outcome> {
  const phase = await rollingBack(failure, ports);
  if (hasSlotPayload(phase.firmware)) await disableSlot(phase, ports);
  // boards alone were on trial: the bootloader may have fallen back to the other slot since
  await keepSlot({ booted }, ports);
  return finishRollback(phase, ports);
}

/** Starts the rollback, unless it has started. The cause of an end without output is derived from earlier attempts. */
async function rollingBack(
  { code, reason, fault }: TrialFailure,
  { journal, settings }: UpdatePorts,
): Promise<PhaseOf<'rolling-back'>> {
  const { phase } = journal.state;
  if (phase.kind === 'rolling-back') return phase;
  const known = isAmbiguous(code) ? causeWithoutReport(journal.state, settings.attempts) : fault;
  return (await journal.append({ type: 'rollback-started', code, reason, fault: known })).phase;
}
