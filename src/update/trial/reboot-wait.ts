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

/** What was staged waits for the reboot window. */
export interface RebootWait extends Hold {
  /** Wall clock, milliseconds since the epoch; undefined: the clock is not set. */
  readonly untilMs: number | undefined;
}

/** Why the agent does not reboot by itself into what is staged; undefined: it would, or nothing is. Pure. */
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

/** What was staged, and would be booted by no reboot: it waits to be armed, for the first time or again. */
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
 * A person waits for no window: what is staged is armed, where it is not, and booted. Where it is not vouched for any more it is
 * disarmed instead, and the refusal thrown: the person meant to boot it. Where before_reboot wants to be asked later, `not-now` is
 * thrown, and nothing reboots: an application works.
 */
export async function rebootByHand(
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

/** Not so of boards alone, which are tried where the agent runs. */
function waitsForBoot(phase: Phase): phase is PhaseOf<'staged' | 'trial'> {
  return (phase.kind === 'staged' || phase.kind === 'trial') && hasSlotPayload(phase.firmware);
}
