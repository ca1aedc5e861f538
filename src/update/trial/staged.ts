import type { AgentError } from '../../system/errors.ts';
import { nextMinuteMs } from '../../system/time/daily-window.ts';
import type { DailyWindow } from '../../system/time/daily-window.ts';
import { UpdateError } from '../errors.ts';
import { hasSlotPayload } from '../journal/state.ts';
import type { Phase, PhaseOf, UpdateState } from '../journal/state.ts';
import type { Deferral } from '../outcome.ts';
import type { UpdatePorts } from '../policy/install-request.ts';
import { deferredOutcome, mayTry } from '../policy/may-try.ts';
import type { GatewayFacts } from '../policy/may-try.ts';
import type { SlotName } from '../ports.ts';
import { abortAttempt, findRevocation } from './trial.ts';

/** Staged firmware waits for the reboot window. */
export interface RebootWait extends Deferral {
  /** Wall clock, milliseconds since the epoch; undefined if the clock is not synchronized. */
  readonly untilMs: number | undefined;
}

/**
 * Guarantee `not-armed`: returns why the agent does not reboot automatically into staged firmware; undefined if it would,
 * or none is staged. Pure.
 */
export function findRebootDeferral(
  { phase }: UpdateState,
  window: DailyWindow | undefined,
  { nowMs, minuteOfDay }: Pick<GatewayFacts, 'nowMs' | 'minuteOfDay'>,
): RebootWait | undefined {
  if (window === undefined || !waitsForBoot(phase) || phase.attempt.rebootByHand === true) return undefined;
  const deferral = deferredOutcome(phase.attempt, (isOrdered) =>
    isOrdered ? undefined : mayTry({ rebootWindow: window, minuteOfDay }),
  );
  if (deferral === undefined) return undefined;
  const { code, reason } = deferral;
  return { code, reason, untilMs: minuteOfDay === undefined ? undefined : nextMinuteMs(window.fromMinute, nowMs) };
}

/** Staged firmware that no reboot would boot, since it is not armed yet, for the first time or again. */
export interface StagedUnarmed {
  readonly version: string;
  readonly slot: SlotName;
}

export async function findUnarmed({
  journal,
  bootloader,
  machine,
  signal,
}: Pick<UpdatePorts, 'journal' | 'bootloader' | 'machine' | 'signal'>): Promise<StagedUnarmed | undefined> {
  const { phase } = journal.state;
  if (!waitsForBoot(phase) || (await bootloader.bootedSlot(signal)) === phase.slot) return undefined;
  if (phase.kind === 'trial' && phase.bootId === (await machine.bootId())) return undefined;
  return { version: phase.attempt.version.name, slot: phase.slot };
}

/** True if firmware waits for its boot. Boards alone do not: they are tried in the running slot. */
export function waitsForBoot(phase: Phase): phase is PhaseOf<'staged' | 'trial'> {
  return (phase.kind === 'staged' || phase.kind === 'trial') && hasSlotPayload(phase.firmware);
}

/** Disarms an update that lost its trust. Returns the reason, or undefined if it may boot. */
export async function discardUntrusted(
  phase: PhaseOf<'staged' | 'trial'>,
  ports: UpdatePorts,
): Promise<UpdateError | undefined> {
  const error = await distrustReason(phase, ports);
  if (error === undefined) return undefined;
  await discardStaged(phase, error, ports);
  return error;
}

/** A rollback ends for a list alone: it must not depend on files of the configuration. */
async function distrustReason(
  phase: PhaseOf<'staged' | 'trial'>,
  ports: UpdatePorts,
): Promise<UpdateError | undefined> {
  const { by, version } = phase.attempt;
  if (by === 'rollback') {
    const revocation = await findRevocation(phase, ports);
    return revocation && new UpdateError(revocation.code, revocation.reason);
  }
  const doubt = await ports.distrusted?.(phase.firmware, ports.signal);
  return doubt === undefined ? undefined : new UpdateError('no-longer-trusted', `version ${version.name} ${doubt}`);
}

export async function discardStaged(
  phase: PhaseOf<'staged' | 'trial'>,
  error: AgentError,
  ports: UpdatePorts,
): Promise<void> {
  ports.log.error({ slot: phase.slot, code: error.code }, `the staged slot is discarded: ${error.message}`);
  await abortAttempt(phase, error, ports);
}
