import type { AgentError } from '../../system/errors.ts';
import type { UpdatePorts } from '../choice/order.ts';
import { UpdateError } from '../errors.ts';
import type { PhaseOf } from '../journal/state.ts';
import { abandon } from './trial.ts';

/** Disarms what is not vouched for any more. Returns why; undefined: it may boot. */
export async function giveUpDoubtful(
  phase: PhaseOf<'staged' | 'trial'>,
  ports: UpdatePorts,
  signal: AbortSignal,
): Promise<UpdateError | undefined> {
  const { by, version } = phase.attempt;
  const doubt = by === 'rollback' ? undefined : await ports.distrusted?.(phase.firmware, signal);
  if (doubt === undefined) return undefined;
  const error = new UpdateError('trust-withdrawn', `version ${version.name} ${doubt}`);
  await giveUpStaged(phase, error, ports, signal);
  return error;
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
