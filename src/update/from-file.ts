import type { HookPort } from './hooks/hooks.ts';
import type { Deferral } from './outcome.ts';
import {
  acceptableHeaderOf,
  compareToWaiting,
  applyIfTrustList,
  reportingRejection,
} from './policy/detect-trust-list.ts';
import type { InstallRequest, UpdatePorts } from './policy/install-request.ts';
import { yieldToTrustList } from './policy/withdraw.ts';
import type { FirmwareSource } from './ports.ts';

type Ports = Omit<UpdatePorts, 'onProgress'>;

/** Whether a file is a list of keys and revocations. The file is not examined where no hold or hook would stop it. */
export async function isListInFile(
  source: FirmwareSource,
  hold: Deferral | undefined,
  { ports, hooks }: { readonly ports: Ports; readonly hooks?: HookPort | undefined },
  signal: AbortSignal,
): Promise<boolean> {
  if (hold === undefined && hooks?.wants('before_install') !== true) return false;
  const header = await acceptableHeaderOf(source, ports, signal);
  return header?.kind === 'trust-list';
}

/**
 * The version that was staged or is on trial, if it is another one than that of this order, and stands in its way. A list
 * of keys and revocations takes effect here, before a trial is judged; one that is refused throws, and changes nothing.
 * What has not booted yet gives way to it.
 */
export async function findWaitingBeside(
  order: InstallRequest,
  ports: Ports,
  signal: AbortSignal,
): Promise<InstallRequest['version'] | undefined> {
  const { phase } = ports.journal.state;
  if (phase.kind !== 'staged' && phase.kind !== 'trial') return undefined;
  const beside = await compareToWaiting(phase, order, ports, signal);
  if (beside === 'same') return undefined;
  if (beside !== 'list' || phase.attempt.by === 'rollback') return phase.attempt.version;
  await reportingRejection(async () => applyIfTrustList(order.source, ports, signal), ports);
  await yieldToTrustList(ports, signal);
  return undefined;
}
