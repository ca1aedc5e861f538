import { nextMinuteMs } from '../../system/time/daily-window.ts';
import type { DailyWindow } from '../../system/time/daily-window.ts';
import { hasSlotPayload } from '../journal/state.ts';
import type { Phase, PhaseOf, UpdateState } from '../journal/state.ts';
import { waitOf } from '../policy/attempt.ts';
import type { UpdatePorts } from '../policy/install-request.ts';
import { rebootHold } from '../policy/plan.ts';
import type { PlanInput, Deferral } from '../policy/plan.ts';
import type { SlotName } from '../ports.ts';

/** A staged firmware waits for the reboot window. */
export interface RebootWait extends Deferral {
  /** Wall clock, milliseconds since the epoch; undefined: the clock is not set. */
  readonly untilMs: number | undefined;
}

/**
 * Guarantee `not-armed`: why the agent does not reboot by itself into a staged firmware; undefined: it would, or none is
 * staged. Pure.
 */
export function findRebootDeferral(
  { phase }: UpdateState,
  window: DailyWindow | undefined,
  { nowMs, minuteOfDay }: Pick<PlanInput, 'nowMs' | 'minuteOfDay'>,
): RebootWait | undefined {
  if (window === undefined || !waitsForBoot(phase) || phase.attempt.rebootByHand === true) return undefined;
  const hold = waitOf(phase.attempt, () => rebootHold(window, minuteOfDay));
  if (hold === undefined) return undefined;
  return { ...hold, untilMs: minuteOfDay === undefined ? undefined : nextMinuteMs(window.fromMinute, nowMs) };
}

/** A staged firmware that no reboot would boot, since it has yet to be armed, for the first time or again. */
export interface StagedUnarmed {
  readonly version: string;
  readonly slot: SlotName;
}

export async function findUnarmed(
  { journal, bootloader, machine }: Pick<UpdatePorts, 'journal' | 'bootloader' | 'machine'>,
  signal: AbortSignal,
): Promise<StagedUnarmed | undefined> {
  const { phase } = journal.state;
  if (!waitsForBoot(phase) || (await bootloader.bootedSlot(signal)) === phase.slot) return undefined;
  if (phase.kind === 'trial' && phase.bootId === (await machine.bootId())) return undefined;
  return { version: phase.attempt.version.name, slot: phase.slot };
}

/** Whether a firmware waits for its boot. Boards alone do not: they are tried where the agent runs. */
export function waitsForBoot(phase: Phase): phase is PhaseOf<'staged' | 'trial'> {
  return (phase.kind === 'staged' || phase.kind === 'trial') && hasSlotPayload(phase.firmware);
}
