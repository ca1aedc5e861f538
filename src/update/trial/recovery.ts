import { AgentError } from '../../system/errors.ts';
import { beginBoardSync } from '../boards/earlier-boards.ts';
import { evidenceFromReading, evidenceOfHistory, evidenceOfSlot } from '../evidence.ts';
import { isAmbiguous } from '../journal/endings.ts';
import { hasSlotPayload } from '../journal/state.ts';
import type { PhaseOf, UpdateState } from '../journal/state.ts';
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
import {
  commitApproved,
  findStateTrouble,
  isWithoutFallback,
  abandonWithoutJournal,
  stateProblemOnTrial,
} from './stateless-trial.ts';
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
  if (recovery.kind !== 'keep') log.info({ phase: phase.kind, booted, recovery: recovery.kind }, 'settling');
  return apply(recovery, found, ports);
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
    case 'resume-staging':
      return keepRunning(found, ports);
    case 'unknown-trial':
      return judgeUnknown(recovery.isKnown, booted, ports);
    case 'give-up-staging':
      return giveUpStaging(booted, ports);
    case 'arm':
    case 'reboot':
    case 'await-reboot':
      return resumeStaged(recovery, found, ports);
    case 'commit':
      return commitApproved(recovery.phase, booted, ports);
    case 'judge':
      return judge(booted, ports);
    case 'leave-trial':
      return leave(recovery.phase, booted, ports);
    case 'rolled-back':
      return rolledBack(recovery, booted, ports);
  }
}

/** Continues with an update staged before this start, if it is still trusted. */
async function resumeStaged(
  { kind, phase }: Extract<Recovery, { kind: 'arm' | 'reboot' | 'await-reboot' }>,
  found: Found,
  ports: UpdatePorts,
): Promise<Outcome> {
  if ((await discardUntrusted(phase, ports)) !== undefined) return { kind: 'settled' };
  if (kind === 'arm') return rearm(phase, found, ports);
  if (kind === 'await-reboot' || ports.rebootByHand === true) return { kind: 'reboot-required', ...trialOf(phase) };
  return deferredOutcome(phase.attempt, ports.deferReboot) ?? rebootIntoTrial(phase, ports);
}

const NEVER_JUDGED = { code: 'health-unknown', reason: 'the new firmware was never found healthy' };

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
  const leaving = phase.kind === 'trial' ? await giveUpTrial(ports) : phase;
  try {
    return await rollBack(leaving, ports);
  } catch (error) {
    if (!(error instanceof AgentError) || !isWithoutFallback(error)) throw error;
    const reason = `${leaving.reason}; it stays all the same: ${error.message}`;
    log.error({ booted, code: error.code }, reason);
    await keepSlot({ booted }, ports);
    const { fault } = leaving;
    await journal.append({ type: 'rolled-back', at: isoTime(clock), code: error.code, reason, fault });
    return { kind: 'rolled-back', version: phase.attempt.version.name, reason };
  }
}

async function giveUpTrial({ journal, settings }: UpdatePorts): Promise<PhaseOf<'rolling-back'>> {
  const fault = causeWithoutReport(journal.state, settings.attempts);
  return (await journal.append({ type: 'rollback-started', ...NEVER_JUDGED, fault })).phase;
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
  const reason = missing?.message ?? 'the journal knows nothing of what is on trial: it is not that of the old slot';
  return { code: missing?.code ?? 'state-unavailable', reason };
}

/** Judges a trial. If nothing can be written, the trial is left, and the old slot reports why. */
async function judge(booted: SlotName, ports: UpdatePorts): Promise<Outcome> {
  const trouble = await stateProblemOnTrial(ports);
  if (trouble !== undefined) return abandonWithoutJournal(trouble, booted, ports);
  return evaluateTrial(ports);
}

async function leave(phase: PhaseOf<'trial' | 'rolling-back'>, booted: SlotName, ports: UpdatePorts): Promise<Outcome> {
  const trouble = phase.kind === 'rolling-back' ? undefined : await stateProblemOnTrial(ports);
  if (trouble !== undefined) return abandonWithoutJournal(trouble, booted, ports);
  return abandonOrStay(phase, booted, ports);
}

async function giveUpStaging(booted: SlotName, ports: UpdatePorts): Promise<Outcome> {
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
  let evidence: WholeSlot;
  try {
    evidence = await readEvidence(phase, ports);
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    await discardStaged(phase, error, ports);
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

async function rebootIntoTrial(phase: PhaseOf<'trial'>, ports: UpdatePorts): Promise<Outcome> {
  await rebootToTrial(phase, ports);
  return { kind: 'rebooting', ...trialOf(phase) };
}

function trialOf({ attempt, slot }: PhaseOf<'trial'>): { readonly version: string; readonly slot: SlotName } {
  return { version: attempt.version.name, slot };
}

async function rolledBack(
  recovery: Extract<Recovery, { kind: 'rolled-back' }>,
  booted: SlotName,
  ports: UpdatePorts,
): Promise<Outcome> {
  const phase = await rollingBack(recovery, ports);
  if (hasSlotPayload(phase.firmware)) await disableSlot(phase, ports);
  // boards alone were on trial: the bootloader may have fallen back to the other slot since
  await keepSlot({ booted }, ports);
  return finishRollback(phase, ports);
}

async function rollingBack(
  { code, reason, fault }: Extract<Recovery, { kind: 'rolled-back' }>,
  { journal, settings }: UpdatePorts,
): Promise<PhaseOf<'rolling-back'>> {
  const { phase } = journal.state;
  if (phase.kind === 'rolling-back') return phase;
  const known = isAmbiguous(code) ? causeWithoutReport(journal.state, settings.attempts) : fault;
  return (await journal.append({ type: 'rollback-started', code, reason, fault: known })).phase;
}
