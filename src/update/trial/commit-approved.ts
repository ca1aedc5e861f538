import { hasSlotPayload } from '../journal/state.ts';
import type { PhaseOf } from '../journal/state.ts';
import type { RollbackReboot, TrialResult } from '../outcome.ts';
import type { UpdatePorts } from '../policy/install-request.ts';
import type { SlotName } from '../ports.ts';
import { abandonWithoutJournal, stateProblemOnTrial } from './stateless-trial.ts';
import { commitTrial, findRevocation, abandonTrial } from './trial.ts';

/**
 * Guarantee `revocation`: commits a trial that was approved before a restart, unless a list has forbidden it since. What
 * the bootloader has committed already stays. Where nothing can be written, it is left as any other trial is: a list that
 * forbids it could not be kept, either.
 */
export async function commitApproved(
  phase: PhaseOf<'trial'>,
  booted: SlotName,
  ports: UpdatePorts,
  signal: AbortSignal,
): Promise<TrialResult | RollbackReboot> {
  const trouble = await stateProblemOnTrial(ports, signal);
  if (trouble !== undefined) return abandonWithoutJournal(trouble, booted, ports, signal);
  const revocation = await findRevocation(phase, ports);
  if (revocation === undefined) return commitTrial(phase, ports, signal);
  const isDecided = hasSlotPayload(phase.firmware) && !(await ports.bootloader.onTrial(signal));
  return isDecided
    ? commitTrial(phase, ports, signal)
    : abandonTrial({ ...revocation, fault: 'firmware' }, ports, signal);
}
