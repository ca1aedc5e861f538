import { AgentError, valueOrError } from '../../system/errors.ts';
import type { ProvisioningService } from '../ports.ts';
import type { UpdatePorts } from './install-request.ts';
import type { CheckResult } from './update-checker.ts';

interface RecordDeps {
  readonly ports: Pick<UpdatePorts, 'journal' | 'log'>;
  readonly service: Pick<ProvisioningService, 'recordedVersion'>;
}

/**
 * Guarantee `service-record`: true if the service has another current version than the committed one, so that
 * the switch must be sent again. A backup of the service, or a switch that something else answered, can be the reason.
 * An offered version is an order, not such a difference.
 */
export async function recordDiffers(
  { offered, plan }: CheckResult,
  { ports, service }: RecordDeps,
  signal: AbortSignal,
): Promise<boolean> {
  const { journal, log } = ports;
  const { installed, pendingSwitch } = journal.state;
  const versionId = installed?.version.id;
  if (versionId === undefined || pendingSwitch !== undefined || plan.kind === 'install') return false;
  const recorded = await valueOrError(service.recordedVersion(signal));
  if (recorded === undefined || recorded instanceof AgentError || recorded.id === versionId) return false;
  if (recorded.id !== undefined && recorded.id === offered?.id) return false;
  log.warn({ recorded: recorded.id, versionId }, 'the current version of the service differs from the running version');
  await journal.append({ type: 'record-differs', versionId });
  return true;
}
