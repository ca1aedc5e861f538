import { AgentError, valueOrError } from '../../system/errors.ts';
import { overriddenBy } from '../journal/naming.ts';
import { hasSlotPayload, hasTouchedBoards } from '../journal/state.ts';
import type { Attempt, PhaseOf, UpdateState } from '../journal/state.ts';
import type { Version } from '../ports.ts';
import { causeWithoutReport } from '../trial/health.ts';
import { fellBack } from '../trial/plan-recovery.ts';
import type { UpdatePorts } from './install-request.ts';
import { isoTime } from './install-request.ts';
import { consequenceOf } from './may-try.ts';
import type { Plan } from './plan.ts';

const NAMED_SINCE = 'the service has offered another version since it was installed';
const NOT_NAMED = 'the service no longer offers it';

type Ports = Pick<UpdatePorts, 'journal' | 'clock'>;

/** Guarantee `one-report`: ends a paused staging that the plan does not continue, so that every attempt gets its end. */
export async function endObsoleteStaging(plan: Plan, ports: Ports): Promise<void> {
  if (ports.journal.state.phase.kind !== 'staging') return;
  switch (plan.kind) {
    case 'install':
      return;
    case 'deferred':
      if (consequenceOf(plan.code) === 'ends') await withdraw(plan.code, plan.reason, ports);
      return;
    case 'up-to-date':
    case 'nothing-offered':
    case 'reconcile':
      await withdraw('withdrawn', NOT_NAMED, ports);
  }
}

/**
 * Withdraws staged firmware if the service now offers another version or a trust list. A version of the service is
 * compared with its present offer, a file with the offer when it was installed. If the service is unreachable, its
 * last offer counts.
 */
export async function endUnwantedWait(look: () => Promise<Version | undefined>, ports: UpdatePorts) {
  const { journal, log } = ports;
  const phase = await findWaiting(ports);
  if (phase === undefined) return;
  const offered = await valueOrError(look());
  if (offered instanceof AgentError) {
    const { name } = phase.attempt.version;
    log.warn({ code: offered.code }, `cannot check whether ${name} is still offered: ${offered.message}`);
    return;
  }
  const reason = withdrawalReason(journal.state, phase.attempt, offered);
  if (reason !== undefined) await endWait(phase, { code: 'withdrawn', reason }, ports);
}

/**
 * Withdraws staged firmware for a trust list of an operator. The list may revoke it; it can be installed again
 * afterwards.
 */
export async function yieldToTrustList(ports: UpdatePorts): Promise<void> {
  const phase = await findWaiting(ports);
  if (phase === undefined) return;
  const reason = 'an operator installed a trust list before it was booted';
  ports.log.warn({}, `version ${phase.attempt.version.name} is discarded (${reason}); it may be installed again`);
  await endWait(phase, { code: 'overridden', reason }, ports);
}

/**
 * Ends the wait. Firmware that has not run ends here. If it was tried and fell back, the attempt has failed: recovery
 * continues with that, and reads the exit reason of the slot.
 */
async function endWait(
  phase: PhaseOf<'staged' | 'trial'>,
  { code, reason }: { readonly code: string; readonly reason: string },
  ports: UpdatePorts,
): Promise<void> {
  const { journal, bootloader, settings } = ports;
  if (phase.kind === 'trial' && (hasTouchedBoards(phase) || (await hasRun(phase, ports)))) {
    const { slots } = await bootloader.inspect(ports.signal);
    if (slots[phase.slot].lastWord !== undefined) return;
    const failure = fellBack(phase);
    const fault = causeWithoutReport(journal.state, settings.attempts);
    await journal.append({ type: 'rollback-started', ...failure, reason: `${failure.reason}; ${reason}`, fault });
    return;
  }
  await bootloader.markUnbootable(phase.slot, ports.signal);
  await withdraw(code, reason, ports);
}

/**
 * True if the trial was booted: the machine has rebooted since it was armed and, if a trial needs a reboot argument,
 * that reboot was the agent's.
 */
async function hasRun(phase: PhaseOf<'trial'>, { bootloader, machine }: UpdatePorts): Promise<boolean> {
  const wasMissed = bootloader.trialRebootArgument !== undefined && phase.rebootAsked === false;
  return !wasMissed && (await machine.bootId()) !== phase.bootId;
}

/** Returns the phase of firmware that was installed and has not booted yet. */
async function findWaiting({
  journal,
  bootloader,
  signal,
}: UpdatePorts): Promise<PhaseOf<'staged' | 'trial'> | undefined> {
  const { phase } = journal.state;
  if ((phase.kind !== 'staged' && phase.kind !== 'trial') || phase.attempt.by === 'rollback') return undefined;
  if (!hasSlotPayload(phase.firmware) || (await bootloader.bootedSlot(signal)) === phase.slot) return undefined;
  return phase;
}

/**
 * Returns the reason for not wanting staged firmware anymore. A file is overridden by a new offer of the service, not
 * by a missing one. Pure.
 */
function withdrawalReason(
  state: UpdateState,
  { by, version }: Attempt,
  offered: Version | undefined,
): string | undefined {
  if (by !== 'file') return offered?.id === version.id ? undefined : NOT_NAMED;
  const { overrides } = overriddenBy(state);
  const isNew =
    overrides !== undefined && offered !== undefined && ![overrides, state.listVersion].includes(offered.id);
  return isNew ? NAMED_SINCE : undefined;
}

/** Ends the attempt in the journal. Its slot is unbootable, or the caller makes it so. */
export async function withdraw(code: string, reason: string, { journal, clock }: Ports): Promise<void> {
  await journal.append({ type: 'withdrawn', at: isoTime(clock), code, reason });
}
