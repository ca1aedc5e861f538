import type { AgentError } from '../../system/errors.ts';
import type { UpdatePorts } from '../choice/order.ts';
import { UpdateError } from '../errors.ts';
import type { PhaseOf } from '../journal/state.ts';
import { abandon, findRevocation } from './trial.ts';

/** Disarms what is not vouched for any more. Returns why; undefined: it may boot. */
export async function giveUpDoubtful(
  phase: PhaseOf<'staged' | 'trial'>,
  ports: UpdatePorts,
  signal: AbortSignal,
): Promise<UpdateError | undefined> {
  const error = await doubtOf(phase, ports, signal);
  if (error === undefined) return undefined;
  await giveUpStaged(phase, error, ports, signal);
  return error;
}

/** A way back ends for a list alone: it must not depend on files of the configuration. */
async function doubtOf(
  phase: PhaseOf<'staged' | 'trial'>,
  ports: UpdatePorts,
  signal: AbortSignal,
): Promise<UpdateError | undefined> {
  const { by, version } = phase.attempt;
  if (by === 'rollback') {
    const revocation = await findRevocation(phase, ports);
    return revocation && new UpdateError(revocation.code, revocation.reason);
  }
  const doubt = await ports.distrusted?.(phase.firmware, signal);
  return doubt === undefined ? undefined : new UpdateError('trust-withdrawn', `version ${version.name} ${doubt}`);
}

export async function giveUpStaged(
  phase: PhaseOf<'staged' | 'trial'>,
  error: AgentError,
  ports: UpdatePorts,
  signal: AbortSignal,
): Promise<void> {
  ports.log.error({ slot: phase.slot, code: error.code }, `the staged slot is given up: ${error.message}`);
  await abandon(phase, error, ports, signal);
}
