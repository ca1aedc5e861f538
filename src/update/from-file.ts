import { acceptableHeaderOf, compareToWaiting, takeIfList, tellingOfRefusal } from './choice/header.ts';
import type { InstallOrder, UpdatePorts } from './choice/order.ts';
import type { Hold } from './choice/plan.ts';
import { giveWayToList } from './choice/withdraw.ts';
import type { HookPort } from './hooks/hooks.ts';
import type { FirmwareSource } from './ports.ts';

type Ports = Omit<UpdatePorts, 'onProgress'>;

/** Whether a file is a list of keys and revocations. The file is not examined where no hold or hook would stop it. */
export async function isListInFile(
  source: FirmwareSource,
  hold: Hold | undefined,
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
  order: InstallOrder,
  ports: Ports,
  signal: AbortSignal,
): Promise<InstallOrder['version'] | undefined> {
  const { phase } = ports.journal.state;
  if (phase.kind !== 'staged' && phase.kind !== 'trial') return undefined;
  const beside = await compareToWaiting(phase, order, ports, signal);
  if (beside === 'same') return undefined;
  if (beside !== 'list' || phase.attempt.by === 'rollback') return phase.attempt.version;
  await tellingOfRefusal(async () => takeIfList(order.source, ports, signal), ports);
  await giveWayToList(ports, signal);
  return undefined;
}
