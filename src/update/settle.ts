import assert from 'node:assert';

import { AgentError } from '../system/errors.ts';
import { evidenceFromReading, evidenceOfHistory, evidenceOfSlot } from './evidence.ts';
import { isoTime } from './order.ts';
import type { UpdatePorts } from './order.ts';
import type { SlotName, WholeSlot } from './ports.ts';
import { recover } from './recover.ts';
import type { Recovery } from './recover.ts';
import { otherSlot } from './slot.ts';
import { hasSlotPayload } from './state.ts';
import type { PhaseOf } from './state.ts';
import { abandon, commitTrial, finishRollback, judgeTrial, keepSlot, leaveTrial, startTrial } from './trial.ts';
import { readPartitions, slotsTargets } from './whole-slot.ts';

export type Settled =
  /** Nothing is under way; updates may begin. */
  | { readonly kind: 'settled' }
  | { readonly kind: 'committed'; readonly version: string }
  | { readonly kind: 'rolled-back'; readonly version: string; readonly reason: string }
  /** The machine is about to reboot into the slot, or must; nothing else may begin. */
  | {
      readonly kind: 'rebooting';
      readonly version: string;
      readonly slot: SlotName;
      readonly reason: string;
      /** The version is left, for that reason. */
      readonly goesBack?: boolean;
    }
  /** A person asked to reboot by hand; nothing else may begin. */
  | { readonly kind: 'awaiting-reboot'; readonly version: string; readonly slot: SlotName };

/** At start-up: finishes or undoes what the journal says was left half done. Harmless to repeat. */
export async function settle(ports: UpdatePorts, signal: AbortSignal): Promise<Settled> {
  const { journal, bootloader, machine, log } = ports;
  const booted = await bootloader.bootedSlot(signal);
  const { phase } = journal.state;
  const recovery = recover(phase, booted, await machine.bootId());
  if (recovery.kind !== 'keep') log.info({ phase: phase.kind, booted, recovery: recovery.kind }, 'settling');
  return apply(recovery, booted, ports, signal);
}

async function apply(recovery: Recovery, booted: SlotName, ports: UpdatePorts, signal: AbortSignal): Promise<Settled> {
  switch (recovery.kind) {
    case 'keep':
    case 'resume-staging':
      return keep(booted, ports, signal);
    case 'keep-if-healthy':
      return keepIfHealthy(booted, ports, signal);
    case 'give-up-staging':
      return giveUpStaging(booted, ports, signal);
    case 'arm':
      return armAgain(booted, ports, signal);
    case 'reboot':
      return rebootIntoTrial(ports, signal);
    case 'await-reboot':
      return awaitReboot(ports);
    case 'commit':
      return endTrial(await commitTrial(ports, signal));
    case 'judge':
      return endTrial(await judgeTrial(ports, signal));
    case 'leave-trial':
      return leaveOrStay(booted, ports, signal);
    case 'rolled-back':
      return rolledBack(recovery, booted, ports, signal);
  }
}

const NEVER_JUDGED = { code: 'not-judged', reason: 'the new firmware was never found healthy', quarantine: true };

function endTrial(end: Awaited<ReturnType<typeof judgeTrial>>): Settled {
  if (end.kind !== 'leaving') return end;
  const { version, slot, reason } = end;
  return { kind: 'rebooting', version, slot: otherSlot(slot), reason, goesBack: true };
}

/** Where nothing else boots, what runs stays, whatever was found of it, and the next version has to mend it. */
async function leaveOrStay(booted: SlotName, ports: UpdatePorts, signal: AbortSignal): Promise<Settled> {
  const { journal, bootloader, clock, log } = ports;
  try {
    return endTrial(await leaveTrial(NEVER_JUDGED, ports, signal));
  } catch (error) {
    const { phase } = journal.state;
    if (!isWithoutFallback(error) || phase.kind !== 'rolling-back') throw error;
    const reason = `${phase.reason}; it stays all the same: ${error.message}`;
    log.error({ booted, code: error.code }, reason);
    await bootloader.commit(booted, signal);
    await journal.append({ type: 'rolled-back', at: isoTime(clock), code: error.code, reason });
    return { kind: 'rolled-back', version: phase.attempt.version.name, reason };
  }
}

function isWithoutFallback(error: unknown): error is AgentError {
  return error instanceof AgentError && error.code === 'no-fallback-slot';
}

/** Boot counters run down with every boot; what runs is kept by renewing them. */
async function keep(booted: SlotName, ports: UpdatePorts, signal: AbortSignal): Promise<Settled> {
  await keepSlot(booted, ports, signal);
  return { kind: 'settled' };
}

/**
 * Nothing is known of what runs. Where it is not healthy, it may be a trial that nobody committed: it is left if the other
 * slot boots, and kept if that is not known.
 */
async function keepIfHealthy(booted: SlotName, ports: UpdatePorts, signal: AbortSignal): Promise<Settled> {
  const { journal, bootloader, machine, health, log } = ports;
  const complaint = await health.check(signal);
  if (complaint !== undefined) {
    log.error({ booted, complaint }, 'the journal is lost, and what runs is not healthy');
    if (await giveUpSlot(booted, ports, signal)) {
      await machine.reboot(undefined, signal);
      return { kind: 'rebooting', version: 'what runs', slot: otherSlot(booted), reason: complaint };
    }
  }
  await bootloader.commit(booted, signal);
  await journal.append({ type: 'recovered' });
  return { kind: 'settled' };
}

/** False: no other slot is known to boot. */
async function giveUpSlot(booted: SlotName, { bootloader }: UpdatePorts, signal: AbortSignal): Promise<boolean> {
  try {
    await bootloader.markUnbootable(booted, signal);
    return true;
  } catch (error) {
    if (isWithoutFallback(error)) return false;
    throw error;
  }
}

async function giveUpStaging(booted: SlotName, ports: UpdatePorts, signal: AbortSignal): Promise<Settled> {
  await ports.bootloader.commit(booted, signal);
  const failure = {
    outcome: 'failed',
    code: 'interrupted',
    reason: 'the installation from a file was interrupted',
    quarantine: false,
  } as const;
  await ports.journal.append({ type: 'failed', at: isoTime(ports.clock), failure });
  return { kind: 'settled' };
}

/** Each fall back used up one boot of what runs, which is what the next one falls back to: it is renewed first. */
async function armAgain(booted: SlotName, ports: UpdatePorts, signal: AbortSignal): Promise<Settled> {
  const { phase } = ports.journal.state;
  assert(phase.kind === 'staged' || phase.kind === 'trial');
  await ports.bootloader.commit(booted, signal);
  let evidence: WholeSlot;
  try {
    evidence = await readEvidence(phase, ports, signal);
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    ports.log.error({ slot: phase.slot, code: error.code }, `the staged slot is given up: ${error.message}`);
    await abandon(error, ports, signal);
    return { kind: 'settled' };
  }
  const { version } = await startTrial(evidence, true, ports, signal);
  const { slot } = phase;
  return { kind: 'rebooting', version, slot, reason: `trial of slot ${slot}` };
}

/** What was verified when it was written is verified again by reading, but for a slot that a person goes back to. */
async function readEvidence(
  { attempt, firmware, slot }: PhaseOf<'staged'> | PhaseOf<'trial'>,
  ports: UpdatePorts,
  signal: AbortSignal,
): Promise<WholeSlot> {
  if (attempt.by === 'rollback') return evidenceOfHistory(firmware, slot);
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

async function rebootIntoTrial(ports: UpdatePorts, signal: AbortSignal): Promise<Settled> {
  const { phase } = ports.journal.state;
  assert(phase.kind === 'trial');
  ports.onProgress({ kind: 'phase', phase: 'rebooting', detail: `slot ${phase.slot}` });
  await ports.machine.reboot(ports.bootloader.trialRebootArgument, signal);
  const { slot, attempt } = phase;
  return { kind: 'rebooting', version: attempt.version.name, slot, reason: `trial of slot ${slot}` };
}

function awaitReboot(ports: UpdatePorts): Settled {
  const { phase } = ports.journal.state;
  assert(phase.kind === 'trial');
  return { kind: 'awaiting-reboot', version: phase.attempt.version.name, slot: phase.slot };
}

async function rolledBack(
  recovery: Extract<Recovery, { kind: 'rolled-back' }>,
  booted: SlotName,
  ports: UpdatePorts,
  signal: AbortSignal,
): Promise<Settled> {
  const { journal, bootloader } = ports;
  const { code, reason } = recovery;
  if (journal.state.phase.kind === 'trial')
    await journal.append({ type: 'rollback-started', code, reason, quarantine: true });
  const { phase } = journal.state;
  assert(phase.kind === 'rolling-back');
  if (hasSlotPayload(phase.firmware)) await bootloader.markUnbootable(phase.slot, signal);
  // Boards alone were on trial: the bootloader may have gone back to the other slot meanwhile.
  await keepSlot(booted, ports, signal);
  return finishRollback(ports, signal);
}
