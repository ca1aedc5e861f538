import assert from 'node:assert';

import { AgentError } from '../../system/errors.ts';
import { isoTime } from '../choice/order.ts';
import type { UpdatePorts } from '../choice/order.ts';
import { evidenceFromReading, evidenceOfHistory, evidenceOfSlot } from '../evidence.ts';
import { hasSlotPayload } from '../journal/state.ts';
import type { PhaseOf, UpdateState } from '../journal/state.ts';
import type { Outcome } from '../outcome.ts';
import type { SlotName, WholeSlot } from '../ports.ts';
import { otherSlot } from '../slot.ts';
import { findBefore, readPartitions, slotsTargets } from '../whole-slot.ts';
import { faultOfSilence, isUnclear } from './blame.ts';
import { beginToFollow } from './follow-slot.ts';
import { recover } from './recover.ts';
import type { Found, Recovery } from './recover.ts';
import { findStateTrouble, isWithoutFallback, leaveWithoutJournal } from './stateless-trial.ts';
import type { WhyLeft } from './stateless-trial.ts';
import {
  abandon,
  commitTrial,
  finishRollback,
  giveUpSlot,
  judgeTrial,
  keepSlot,
  leaveTrial,
  rebootToTrial,
  startTrial,
} from './trial.ts';

/** At start-up: finishes or undoes what the journal says was left half done. Harmless to repeat. */
export async function settle(ports: UpdatePorts, signal: AbortSignal): Promise<Outcome> {
  const { journal, bootloader, log } = ports;
  await journal.refresh();
  const booted = await bootloader.bootedSlot(signal);
  const found = await lookAround(booted, ports, signal);
  if (wasMissed(journal.state, found, ports)) await journal.append({ type: 'trial-missed' });
  const { phase } = journal.state;
  const recovery = recover(journal.state, found, journal.missing === undefined);
  if (recovery.kind !== 'keep') log.info({ phase: phase.kind, booted, recovery: recovery.kind }, 'settling');
  return apply(recovery, booted, ports, signal);
}

async function lookAround(booted: SlotName, { bootloader, machine }: UpdatePorts, signal: AbortSignal): Promise<Found> {
  const { lastWord } = (await bootloader.inspect(signal)).slots[otherSlot(booted)];
  return { booted, bootId: await machine.bootId(), onTrial: await bootloader.onTrial(signal), lastWord };
}

async function apply(recovery: Recovery, booted: SlotName, ports: UpdatePorts, signal: AbortSignal): Promise<Outcome> {
  switch (recovery.kind) {
    case 'keep':
    case 'resume-staging':
      return keep(booted, ports, signal);
    case 'unknown-trial':
      return judgeUnknown(recovery.isKnown, booted, ports, signal);
    case 'give-up-staging':
      return giveUpStaging(booted, ports, signal);
    case 'arm':
      return armAgain(booted, ports, signal);
    case 'reboot':
      return rebootIntoTrial(ports, signal);
    case 'await-reboot':
      return awaitReboot(ports);
    case 'commit':
      return commitTrial(ports, signal);
    case 'judge':
      return judge(booted, ports, signal);
    case 'leave-trial':
      return leave(booted, ports, signal);
    case 'rolled-back':
      return rolledBack(recovery, booted, ports, signal);
  }
}

const NEVER_JUDGED = { code: 'not-judged', reason: 'the new firmware was never found healthy' };

/** Where nothing else boots, what runs stays, whatever was found of it, and the next version has to mend it. */
async function leaveOrStay(booted: SlotName, ports: UpdatePorts, signal: AbortSignal): Promise<Outcome> {
  const { journal, clock, log } = ports;
  try {
    const fault = faultOfSilence(journal.state, ports.settings.attempts);
    return await leaveTrial({ ...NEVER_JUDGED, fault }, ports, signal);
  } catch (error) {
    const { phase } = journal.state;
    if (!(error instanceof AgentError) || !isWithoutFallback(error) || phase.kind !== 'rolling-back') throw error;
    const reason = `${phase.reason}; it stays all the same: ${error.message}`;
    log.error({ booted, code: error.code }, reason);
    await keepSlot(booted, ports, signal);
    const { fault } = phase;
    await journal.append({ type: 'rolled-back', at: isoTime(clock), code: error.code, reason, fault });
    return { kind: 'rolled-back', version: phase.attempt.version.name, reason };
  }
}

/**
 * Boot counters run down with every boot; what runs is kept by renewing them. Where the phase could not be understood,
 * what was under way has ended: what runs was committed, says the bootloader.
 */
async function keep(booted: SlotName, ports: UpdatePorts, signal: AbortSignal): Promise<Outcome> {
  const { journal, clock } = ports;
  await keepSlot(booted, ports, signal);
  if (await beginToFollow(ports)) return finishRollback(ports, signal);
  const isReadable = journal.missing === undefined;
  if (isReadable && journal.state.phase.kind === 'lost')
    await journal.append({ type: 'recovered', at: isoTime(clock) });
  return { kind: 'settled' };
}

/** Nobody here armed it. Where it is not healthy, it is left: the bootloader falls back. */
async function judgeUnknown(
  isKnown: boolean,
  booted: SlotName,
  ports: UpdatePorts,
  signal: AbortSignal,
): Promise<Outcome> {
  const stateTrouble = isKnown ? await findStateTrouble(ports, signal) : unknownTrial(ports);
  const complaint = stateTrouble ?? (await complaintOf(ports, signal));
  if (complaint !== undefined) return leaveWithoutJournal(complaint, booted, ports, signal);
  return keep(booted, ports, signal);
}

async function complaintOf({ health }: UpdatePorts, signal: AbortSignal): Promise<WhyLeft | undefined> {
  return health.check(signal);
}

function unknownTrial({ journal }: UpdatePorts): WhyLeft {
  const { missing } = journal;
  const reason = missing?.message ?? 'the journal knows nothing of what is on trial: it is not that of the old slot';
  return { code: missing?.code ?? 'state-unavailable', reason };
}

/** Without a place to write, a trial cannot be judged as one: it is left, and the old slot reports why. */
async function judge(booted: SlotName, ports: UpdatePorts, signal: AbortSignal): Promise<Outcome> {
  const trouble = await troubleOnTrial(ports, signal);
  if (trouble !== undefined) return leaveWithoutJournal(trouble, booted, ports, signal);
  return judgeTrial(ports, signal);
}

async function leave(booted: SlotName, ports: UpdatePorts, signal: AbortSignal): Promise<Outcome> {
  const isRecorded = ports.journal.state.phase.kind === 'rolling-back';
  const trouble = isRecorded ? undefined : await troubleOnTrial(ports, signal);
  if (trouble !== undefined) return leaveWithoutJournal(trouble, booted, ports, signal);
  return leaveOrStay(booted, ports, signal);
}

async function troubleOnTrial(ports: UpdatePorts, signal: AbortSignal): Promise<WhyLeft | undefined> {
  return (await ports.bootloader.onTrial(signal)) ? findStateTrouble(ports, signal) : undefined;
}

async function giveUpStaging(booted: SlotName, ports: UpdatePorts, signal: AbortSignal): Promise<Outcome> {
  await keepSlot(booted, ports, signal);
  const failure = {
    outcome: 'failed',
    code: 'interrupted',
    reason: 'the installation from a file was interrupted',
  } as const;
  await ports.journal.append({ type: 'failed', at: isoTime(ports.clock), failure });
  return { kind: 'settled' };
}

/**
 * Each fall back used up one boot of what runs, which is what the next one falls back to: it is renewed first. Nothing
 * more is written to the boot environment where the journal cannot follow: both would be changed back and forth. Whoever the trial was
 * begun for, it is begun again under the same conditions.
 */
async function armAgain(booted: SlotName, ports: UpdatePorts, signal: AbortSignal): Promise<Outcome> {
  const { phase } = ports.journal.state;
  assert(phase.kind === 'staged' || phase.kind === 'trial');
  const { attempt } = phase;
  const hold = attempt.by === 'service' && attempt.forced !== true ? ports.hold?.() : undefined;
  if (hold !== undefined) return { kind: 'held-back', version: attempt.version.name, ...hold };
  await ports.bootloader.commit(booted, signal);
  await ports.journal.probe();
  let evidence: WholeSlot;
  try {
    evidence = await readEvidence(phase, ports, signal);
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    ports.log.error({ slot: phase.slot, code: error.code }, `the staged slot is given up: ${error.message}`);
    await abandon(error, ports, signal);
    return { kind: 'settled' };
  }
  return startTrial(evidence, !waitsForPerson(phase), ports, signal);
}

/** Who asked to reboot by hand is waited for once. */
function waitsForPerson(phase: PhaseOf<'staged'> | PhaseOf<'trial'>): boolean {
  const wasAsked = phase.kind === 'trial' && phase.rebootAsked === true;
  return phase.attempt.rebootByHand === true && !wasAsked;
}

/** Where a trial boots only by the reboot that asks for it, any other one has taken its place. */
function wasMissed({ phase }: UpdateState, { booted, bootId }: Found, { bootloader }: UpdatePorts): boolean {
  if (bootloader.trialRebootArgument === undefined || phase.kind !== 'trial') return false;
  return phase.rebootAsked === false && booted !== phase.slot && bootId !== phase.bootId;
}

/** What was verified when it was written is verified again by reading; of a slot that a person goes back to, what can be. */
async function readEvidence(
  { attempt, firmware, slot }: PhaseOf<'staged'> | PhaseOf<'trial'>,
  ports: UpdatePorts,
  signal: AbortSignal,
): Promise<WholeSlot> {
  if (attempt.by === 'rollback') {
    const { read: before } = await findBefore(slot, ports, signal);
    return evidenceOfHistory(firmware, slot, ports.journal.state.slots[slot], before);
  }
  const kept = new Map<string, string>();
  for (const { target, sizeBytes, kind } of firmware.payloads) {
    const found = ports.targets.get(target);
    if (kind === 'mcu' && found?.kind === 'mcu') kept.set(target, await found.digestOf(sizeBytes, signal));
  }
  const payloads = firmware.payloads.filter(({ kind }) => kind === 'mcu');
  const verified = evidenceFromReading({ ...firmware, payloads }, kept);
  const targets = slotsTargets(ports.targets.values());
  const read = await readPartitions(slot, targets, ports, signal);
  return evidenceOfSlot(verified, { slot, configured: targets.map(({ name }) => name), staged: [], read });
}

async function rebootIntoTrial(ports: UpdatePorts, signal: AbortSignal): Promise<Outcome> {
  const { phase } = ports.journal.state;
  assert(phase.kind === 'trial');
  await rebootToTrial(ports, signal);
  const { slot, attempt } = phase;
  return { kind: 'rebooting', version: attempt.version.name, slot };
}

function awaitReboot(ports: UpdatePorts): Outcome {
  const { phase } = ports.journal.state;
  assert(phase.kind === 'trial');
  return { kind: 'reboot-required', version: phase.attempt.version.name, slot: phase.slot };
}

async function rolledBack(
  recovery: Extract<Recovery, { kind: 'rolled-back' }>,
  booted: SlotName,
  ports: UpdatePorts,
  signal: AbortSignal,
): Promise<Outcome> {
  const { journal, bootloader, settings } = ports;
  const { code, reason } = recovery;
  if (journal.state.phase.kind !== 'rolling-back') {
    const fault = isUnclear(code) ? faultOfSilence(journal.state, settings.attempts) : recovery.fault;
    await journal.append({ type: 'rollback-started', code, reason, fault });
  }
  const { phase } = journal.state;
  assert(phase.kind === 'rolling-back');
  if (hasSlotPayload(phase.firmware)) await giveUpSlot(phase, bootloader, signal);
  // Boards alone were on trial: the bootloader may have gone back to the other slot meanwhile.
  await keepSlot(booted, ports, signal);
  return finishRollback(ports, signal);
}
