import type { AgentError } from '../../system/errors.ts';
import { UpdateError } from '../errors.ts';
import type { PhaseOf } from '../journal/state.ts';
import type { UpdatePorts } from '../policy/install-request.ts';
import { abortAttempt, findRevocation } from './trial.ts';

/** Disarms what is not vouched for any more. Returns why; undefined: it may boot. */
export async function discardUntrusted(
  phase: PhaseOf<'staged' | 'trial'>,
  ports: UpdatePorts,
  signal: AbortSignal,
): Promise<UpdateError | undefined> {
  const error = await distrustReason(phase, ports, signal);
  if (error === undefined) return undefined;
  await discardStaged(phase, error, ports, signal);
  return error;
}

/** A way back ends for a list alone: it must not depend on files of the configuration. */
async function distrustReason(
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
  return doubt === undefined ? undefined : new UpdateError('no-longer-trusted', `version ${version.name} ${doubt}`);
}

export async function discardStaged(
  phase: PhaseOf<'staged' | 'trial'>,
  error: AgentError,
  ports: UpdatePorts,
  signal: AbortSignal,
): Promise<void> {
  ports.log.error({ slot: phase.slot, code: error.code }, `the staged slot is given up: ${error.message}`);
  await abortAttempt(phase, error, ports, signal);
}
