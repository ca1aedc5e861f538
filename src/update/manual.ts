import type { AgentError } from '../system/errors.ts';
import { UpdateError } from './errors.ts';
import { CANCELLED_BEFORE_BOOT } from './journal/endings.ts';
import type { Attempt, PhaseOf, TrialFailure } from './journal/state.ts';
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
import {
  findRevocation,
  commitWithoutHealthChecks,
  abandonTrial,
  rollBack,
  rebootToTrial,
  stagedIn,
} from './trial/trial.ts';

/** The dependencies of a manual action. */
export interface ManualActionDeps {
  readonly ports: UpdatePorts;
  /** Recovers an interrupted update. */
  readonly settle: () => Promise<Outcome>;
  /** Tells the service what it does not know yet. */
  readonly deliver: () => Promise<AgentError | undefined>;
}

type Ended = InstallOutcome | { readonly kind: 'cancelled' | 'nothing-to-cancel'; readonly version: string };

/** Returns the cause of a trial's end by an operator. */
function endedManually(by?: Attempt['by']): TrialFailure {
  const reason = by === 'rollback' ? 'an operator ended the trial of the rollback' : 'an operator rolled it back';
  return { code: 'manual', reason, fault: 'person' };
}

/**
 * Commits the trial without health checks, even if a damaged journal has lost it. Rejected while the journal cannot be
 * read, since it names the boards of the trial, and if a trust list revokes the release.
 */
export async function commitManually({ ports, deliver }: ManualActionDeps): Promise<Ended> {
  const { journal, bootloader } = ports;
  await journal.refresh();
  const { phase, installed } = journal.state;
  const booted = await bootloader.bootedSlot(ports.signal);
  if (phase.kind === 'lost' && (await bootloader.onTrial(ports.signal))) {
    if (journal.missing !== undefined) throw journal.missing;
    await keepRunning({ booted }, ports);
    return { kind: 'installed', version: installed?.version.name ?? 'the running version' };
  }
  const onTrial = phase.kind === 'trial' || phase.kind === 'staged';
  if (!onTrial || booted !== phase.slot) throw new UpdateError('no-trial', 'there is no trial to commit');
  const revocation = await findRevocation(phase, ports);
  if (revocation !== undefined) throw new UpdateError(revocation.code, revocation.reason);
  const end = await commitWithoutHealthChecks(ports);
  await deliver();
  return outcomeOf(end);
}

/**
 * Ends a trial, cancels an update that has not booted yet, or boots the previous version, as a trial like any other.
 */
export async function rollBackManually(flags: RollbackOptions, intervention: ManualActionDeps): Promise<Ended> {
  const { ports, settle, deliver } = intervention;
  const { journal, bootloader } = ports;
  await journal.refresh();
  const { phase } = journal.state;
  const booted = await bootloader.bootedSlot(ports.signal);
  const runsHere = 'slot' in phase && phase.slot === booted;
  if (phase.kind === 'lost' && (await bootloader.onTrial(ports.signal)))
    return outcomeOf(await abandonWithoutJournal(endedManually(), booted, ports));
  await journal.probe();
  if (phase.kind === 'lost') await settle();
  if (phase.kind === 'trial' || phase.kind === 'staged')
    return runsHere
      ? outcomeOf(await abandonTrial(endedManually(phase.attempt.by), ports))
      : resumeRollback(phase, flags, intervention);
  if (phase.kind === 'rolling-back') {
    const end = await endRollback(phase, runsHere, ports);
    if (end !== undefined) return end;
  }
  const outcome = await startRollback(otherSlot(booted), flags, ports);
  if (outcome.kind === 'installed' || outcome.kind === 'rolled-back') await deliver();
  return outcome;
}

/** Continues a rollback that waits for its reboot, and cancels an update that does. */
async function resumeRollback(
  phase: PhaseOf<'staged' | 'trial'>,
  { reboot }: RollbackOptions,
  intervention: ManualActionDeps,
): Promise<Ended> {
  const { ports } = intervention;
  if (phase.attempt.by !== 'rollback') return callOff(phase, intervention);
  if (!reboot) return { kind: 'reboot-required', ...stagedIn(phase) };
  await rebootManually(ports.bootloader.trialRebootArgument, ports);
  return { kind: 'rebooting', ...stagedIn(phase) };
}

/** Ends what is being rolled back. Returns undefined if only an earlier rollback of boards was undone by that. */
async function endRollback(
  phase: PhaseOf<'rolling-back'>,
  runsHere: boolean,
  ports: UpdatePorts,
): Promise<Ended | undefined> {
  const { attempt, firmware } = phase;
  if (!runsHere) throw new UpdateError('update-in-progress', `${attempt.version.name} is already being rolled back`);
  const end = outcomeOf(await rollBack(phase, ports));
  return attempt.by === 'rollback' && !hasSlotPayload(firmware) ? undefined : end;
}

/**
 * Ends a paused or just interrupted download, or the wait for the reboot into a trial. The agent does not start this
 * version again automatically. A running trial needs `commit` or `rollback`.
 */
export async function cancelManually(intervention: ManualActionDeps): Promise<Ended> {
  const { journal, bootloader, clock, signal } = intervention.ports;
  await journal.refresh();
  const { phase, installed } = journal.state;
  if (phase.kind === 'staging') {
    await journal.append({ type: 'cancelled', at: isoTime(clock) });
    await intervention.deliver();
    return { kind: 'cancelled', version: phase.attempt.version.name };
  }
  if (phase.kind !== 'trial' && phase.kind !== 'staged')
    return { kind: 'nothing-to-cancel', version: installed?.version.name ?? 'the running version' };
  if (phase.slot !== (await bootloader.bootedSlot(signal))) return callOff(phase, intervention);
  throw new UpdateError('trial-in-progress', `version ${phase.attempt.version.name} is on trial already`);
}

/** Cancels a staged release that never ran. */
async function callOff({ attempt }: PhaseOf<'staged' | 'trial'>, { ports, settle }: ManualActionDeps): Promise<Ended> {
  await ports.journal.append({ type: 'rollback-started', ...CANCELLED_BEFORE_BOOT });
  await settle();
  return { kind: 'cancelled', version: attempt.version.name };
}

/** Returns the outcome for an operator: the rollback, not the reboot that it takes. */
function outcomeOf(end: TrialResult): Ended {
  if (end.kind !== 'rebooting') return end;
  const { version, isRollback, reason, instead } = end;
  return { kind: 'rolled-back', version, isRollback, reason, instead };
}

/**
 * Reboots for an operator, without waiting for a window: a staged update is armed if needed, and booted. If it is no
 * longer trusted, it is disarmed and the error thrown. If `before_reboot` defers, `hook-deferred` is thrown and nothing
 * reboots.
 */
export async function rebootManually(argument: string | undefined, given: UpdatePorts): Promise<void> {
  const ports = { ...given, deferResume: undefined, deferReboot: undefined, rebootByHand: false };
  const { journal, machine, bootloader } = ports;
  const { phase: before } = journal.state;
  if (waitsForBoot(before) && (await bootloader.bootedSlot(ports.signal)) !== before.slot) {
    const refusal = await discardUntrusted(before, ports);
    if (refusal !== undefined) throw refusal;
  }
  const unarmed = await findUnarmed(ports);
  const settled = unarmed === undefined ? undefined : await recoverUpdate(ports);
  if (settled?.kind === 'rebooting') return;
  if (settled?.kind === 'deferred' && settled.code === 'hook-deferred')
    throw new UpdateError(settled.code, settled.reason);
  const { phase } = journal.state;
  if (phase.kind === 'trial' && hasSlotPayload(phase.firmware)) await rebootToTrial(phase, ports);
  else await machine.reboot(argument, ports.signal);
}
