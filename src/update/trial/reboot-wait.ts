import { nextMinuteMs } from '../../system/time/daily-window.ts';
import type { DailyWindow } from '../../system/time/daily-window.ts';
import { waitOf } from '../choice/attempt.ts';
import type { UpdatePorts } from '../choice/order.ts';
import { rebootHold } from '../choice/plan.ts';
import type { Circumstances, Hold } from '../choice/plan.ts';
import { UpdateError } from '../errors.ts';
import { hasSlotPayload } from '../journal/state.ts';
import type { Phase, PhaseOf, UpdateState } from '../journal/state.ts';
import type { SlotName } from '../ports.ts';
import { giveUpDoubtful } from './give-up-staged.ts';
import { settle } from './settle.ts';
import { rebootToTrial } from './trial.ts';

/** A staged firmware waits for the reboot window. */
export interface RebootWait extends Hold {
  /** Wall clock, milliseconds since the epoch; undefined: the clock is not set. */
  readonly untilMs: number | undefined;
}

/**
 * Promise `not-armed`: why the agent does not reboot by itself into a staged firmware; undefined: it would, or none is
 * staged. Pure.
 */
export function findRebootWait(
  { phase }: UpdateState,
  window: DailyWindow | undefined,
  { nowMs, minuteOfDay }: Pick<Circumstances, 'nowMs' | 'minuteOfDay'>,
): RebootWait | undefined {
  if (window === undefined || !waitsForBoot(phase) || phase.attempt.rebootByHand === true) return undefined;
  const hold = waitOf(phase.attempt, () => rebootHold(window, minuteOfDay));
  if (hold === undefined) return undefined;
  return { ...hold, untilMs: minuteOfDay === undefined ? undefined : nextMinuteMs(window.fromMinute, nowMs) };
}

/** A staged firmware that no reboot would boot, since it has yet to be armed, for the first time or again. */
export interface Unarmed {
  readonly version: string;
  readonly slot: SlotName;
}

export async function findUnarmed(
  { journal, bootloader, machine }: Pick<UpdatePorts, 'journal' | 'bootloader' | 'machine'>,
  signal: AbortSignal,
): Promise<Unarmed | undefined> {
  const { phase } = journal.state;
  if (!waitsForBoot(phase) || (await bootloader.bootedSlot(signal)) === phase.slot) return undefined;
  if (phase.kind === 'trial' && phase.bootId === (await machine.bootId())) return undefined;
  return { version: phase.attempt.version.name, slot: phase.slot };
}

/**
 * Reboots for a person, who waits for no window: a staged firmware is armed if needed, and booted. If it is not vouched
 * for any more, it is disarmed instead, and the refusal thrown, since the person meant to boot it. If before_reboot
 * wants to be asked later, `not-now` is thrown and nothing reboots, since an application is at work.
 */
export async function rebootForPerson(
  argument: string | undefined,
  ports: Omit<UpdatePorts, 'hold' | 'holdReboot' | 'rebootByHand'>,
  signal: AbortSignal,
): Promise<void> {
  const { journal, machine, bootloader } = ports;
  const { phase: before } = journal.state;
  if (waitsForBoot(before) && (await bootloader.bootedSlot(signal)) !== before.slot) {
    const refusal = await giveUpDoubtful(before, ports, signal);
    if (refusal !== undefined) throw refusal;
  }
  const unarmed = await findUnarmed(ports, signal);
  const settled = unarmed === undefined ? undefined : await settle(ports, signal);
  if (settled?.kind === 'rebooting') return;
  if (settled?.kind === 'held-back' && settled.code === 'not-now') throw new UpdateError(settled.code, settled.reason);
  const { phase } = journal.state;
  if (phase.kind === 'trial' && hasSlotPayload(phase.firmware)) await rebootToTrial(phase, ports, signal);
  else await machine.reboot(argument, signal);
}

/** Whether a firmware waits for its boot. Boards alone do not: they are tried where the agent runs. */
function waitsForBoot(phase: Phase): phase is PhaseOf<'staged' | 'trial'> {
  return (phase.kind === 'staged' || phase.kind === 'trial') && hasSlotPayload(phase.firmware);
}
