import type { UpdatePorts } from '../choice/order.ts';
import { hasSlotPayload } from '../journal/state.ts';
import type { PhaseOf } from '../journal/state.ts';
import type { GoingBack, TrialEnd } from '../outcome.ts';
import type { SlotName } from '../ports.ts';
import { leaveWithoutJournal, troubleOnTrial } from './stateless-trial.ts';
import { commitTrial, findRevocation, leaveTrial } from './trial.ts';

/**
 * Promise `revocation`: commits a trial that was approved before a restart, unless a list has forbidden it since. What
 * the bootloader has committed already stays. Where nothing can be written, it is left as any other trial is: a list that
 * forbids it could not be kept, either.
 */
export async function commitApproved(
  phase: PhaseOf<'trial'>,
  booted: SlotName,
  ports: UpdatePorts,
  signal: AbortSignal,
): Promise<TrialEnd | GoingBack> {
  const trouble = await troubleOnTrial(ports, signal);
  if (trouble !== undefined) return leaveWithoutJournal(trouble, booted, ports, signal);
  const revocation = await findRevocation(phase, ports);
  if (revocation === undefined) return commitTrial(phase, ports, signal);
  const isDecided = hasSlotPayload(phase.firmware) && !(await ports.bootloader.onTrial(signal));
  return isDecided
    ? commitTrial(phase, ports, signal)
    : leaveTrial({ ...revocation, fault: 'firmware' }, ports, signal);
}
