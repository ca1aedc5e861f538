import type { AgentError } from '../system/errors.ts';
import { UpdateError } from './errors.ts';
import { CANCELLED_BEFORE_BOOT } from './journal/endings.ts';
import type { PhaseOf } from './journal/state.ts';
import { hasSlotPayload } from './journal/state.ts';
import type { InstallOutcome, Outcome, TrialResult } from './outcome.ts';
import { isoTime } from './policy/install-request.ts';
import type { UpdatePorts } from './policy/install-request.ts';
import { otherSlot } from './slot.ts';
import { startRollback } from './trial/manual-rollback.ts';
import type { RollbackOptions } from './trial/manual-rollback.ts';
import { keepRunning, recoverUpdate } from './trial/recovery.ts';
import { discardUntrusted, findUnarmed, waitsForBoot } from './trial/staged.ts';
import { abandonWithoutJournal } from './trial/stateless-trial.ts';
import { findRevocation, commitWithoutHealthChecks, abandonTrial, rollBack, rebootToTrial } from './trial/trial.ts';

/** What an intervention by a person needs. */
export interface ManualActionDeps {
  readonly ports: UpdatePorts;
  /** Finishes or undoes what the journal says. */
  readonly settle: () => Promise<Outcome>;
  /** Tells the service what it does not know yet. */
  readonly deliver: () => Promise<AgentError | undefined>;
}

type Ended = InstallOutcome | { readonly kind: 'cancelled' | 'nothing-to-cancel'; readonly version: string };

const BY_HAND = { code: 'manual', reason: 'a person rolled it back', fault: 'person' } as const;

/**
 * Keeps the trial for a person, without waiting for the health gate, even if a damaged journal has lost what it knew of
 * it. Refused while the journal cannot be read, since it says what belongs to the trial, such as its boards; and
 * refused if a list has revoked the firmware.
 */
export async function commitManually({ ports, deliver }: ManualActionDeps, signal: AbortSignal): Promise<Ended> {
  const { journal, bootloader } = ports;
  await journal.refresh();
  const { phase, installed } = journal.state;
  const booted = await bootloader.bootedSlot(signal);
  if (phase.kind === 'lost' && (await bootloader.onTrial(signal))) {
    if (journal.missing !== undefined) throw journal.missing;
    await keepRunning({ booted }, ports, signal);
    return { kind: 'installed', version: installed?.version.name ?? 'what runs' };
  }
  const onTrial = phase.kind === 'trial' || phase.kind === 'staged';
  if (!onTrial || booted !== phase.slot) throw new UpdateError('no-trial', 'there is no trial to commit');
  const revocation = await findRevocation(phase, ports);
  if (revocation !== undefined) throw new UpdateError(revocation.code, revocation.reason);
  const end = await commitWithoutHealthChecks(ports, signal);
  await deliver();
  return outcomeOf(end);
}

/**
 * Ends a trial, calls off one that has not booted yet, or boots what was installed before, as a trial like any other.
 */
export async function rollBackManually(
  flags: RollbackOptions,
  intervention: ManualActionDeps,
  signal: AbortSignal,
): Promise<Ended> {
  const { ports, settle, deliver } = intervention;
  const { journal, bootloader } = ports;
  await journal.refresh();
  const { phase } = journal.state;
  const booted = await bootloader.bootedSlot(signal);
  const runsHere = 'slot' in phase && phase.slot === booted;
  if (phase.kind === 'lost' && (await bootloader.onTrial(signal)))
    return outcomeOf(await abandonWithoutJournal(BY_HAND, booted, ports, signal));
  await journal.probe();
  if (phase.kind === 'lost') await settle();
  if (phase.kind === 'trial' || phase.kind === 'staged')
    return runsHere ? outcomeOf(await abandonTrial(BY_HAND, ports, signal)) : callOff(phase, intervention);
  if (phase.kind === 'rolling-back') {
    if (runsHere) return outcomeOf(await rollBack(phase, ports, signal));
    throw new UpdateError('update-in-progress', `${phase.attempt.version.name} is being rolled back already`);
  }
  const outcome = await startRollback(otherSlot(booted), flags, ports, signal);
  if (outcome.kind === 'installed' || outcome.kind === 'rolled-back') await deliver();
  return outcome;
}

/**
 * Ends a download that is paused or was just interrupted, or the wait for the reboot into a trial. The agent does not
 * begin this version again by itself. A running trial is left to `commit` and `rollback`.
 */
export async function cancelManually(intervention: ManualActionDeps, signal: AbortSignal): Promise<Ended> {
  const { journal, bootloader, clock } = intervention.ports;
  await journal.refresh();
  const { phase, installed } = journal.state;
  if (phase.kind === 'staging') {
    await journal.append({ type: 'cancelled', at: isoTime(clock) });
    await intervention.deliver();
    return { kind: 'cancelled', version: phase.attempt.version.name };
  }
  if (phase.kind !== 'trial' && phase.kind !== 'staged')
    return { kind: 'nothing-to-cancel', version: installed?.version.name ?? 'what runs' };
  if (phase.slot !== (await bootloader.bootedSlot(signal))) return callOff(phase, intervention);
  throw new UpdateError('trial-in-progress', `version ${phase.attempt.version.name} is on trial already`);
}

/** Calls off a firmware that was staged but never ran. */
async function callOff({ attempt }: PhaseOf<'staged' | 'trial'>, { ports, settle }: ManualActionDeps): Promise<Ended> {
  await ports.journal.append({ type: 'rollback-started', ...CANCELLED_BEFORE_BOOT });
  await settle();
  return { kind: 'cancelled', version: attempt.version.name };
}

/** The outcome for a person: the rollback counts, not the reboot that it takes. */
function outcomeOf(end: TrialResult): Ended {
  return end.kind === 'rebooting' ? { kind: 'rolled-back', version: end.version, reason: end.reason } : end;
}

/**
 * Reboots for a person, who waits for no window: a staged firmware is armed if needed, and booted. If it is not vouched
 * for any more, it is disarmed instead, and the refusal thrown, since the person meant to boot it. If before_reboot
 * wants to be asked later, `hook-deferred` is thrown and nothing reboots, since an application is at work.
 */
export async function rebootManually(
  argument: string | undefined,
  given: UpdatePorts,
  signal: AbortSignal,
): Promise<void> {
  const ports = { ...given, deferResume: undefined, deferReboot: undefined, rebootByHand: false };
  const { journal, machine, bootloader } = ports;
  const { phase: before } = journal.state;
  if (waitsForBoot(before) && (await bootloader.bootedSlot(signal)) !== before.slot) {
    const refusal = await discardUntrusted(before, ports, signal);
    if (refusal !== undefined) throw refusal;
  }
  const unarmed = await findUnarmed(ports, signal);
  const settled = unarmed === undefined ? undefined : await recoverUpdate(ports, signal);
  if (settled?.kind === 'rebooting') return;
  if (settled?.kind === 'deferred' && settled.code === 'hook-deferred')
    throw new UpdateError(settled.code, settled.reason);
  const { phase } = journal.state;
  if (phase.kind === 'trial' && hasSlotPayload(phase.firmware)) await rebootToTrial(phase, ports, signal);
  else await machine.reboot(argument, signal);
}
