import { UpdateError } from '../errors.ts';
import { hasSlotPayload } from '../journal/state.ts';
import type { UpdatePorts } from '../policy/install-request.ts';
import { discardUntrusted } from './discard-staged.ts';
import { findUnarmed, waitsForBoot } from './reboot-wait.ts';
import { recoverUpdate } from './recovery.ts';
import { rebootToTrial } from './trial.ts';

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
