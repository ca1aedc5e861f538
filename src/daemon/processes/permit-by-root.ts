import type { RootOrder } from '../../cli/context.ts';
import type { Config } from '../../config/config.ts';
import { digestOfManifest } from '../../firmware/describe-firmware.ts';
import { openFileSource } from '../../firmware/file-source.ts';
import { runDirectoryOf } from '../../helper/root/engine.ts';
import { leavePermit, permitToGoBack } from '../../helper/root/permit.ts';
import type { Permitted } from '../../helper/root/permit.ts';
import { payloadDigest } from '../../mcu/flash/board-store.ts';
import { LinuxMachine } from '../../system/processes/machine.ts';
import { lookAtJournal } from '../../update/journal/journal.ts';
import { readImageFile } from '../board-files.ts';

/**
 * Lets the helper do once what the agent, which passes the order on, may not ask for by itself. Nothing is left where
 * there is no helper, or if this process does not run for root. `config` is that of root.
 */
export async function permitByRoot(
  config: Config,
  order: RootOrder,
  signal: AbortSignal,
): Promise<AsyncDisposable | undefined> {
  if (config.system.helper === undefined) return undefined;
  const place = { folder: runDirectoryOf(config), machine: new LinuxMachine(config.system) };
  return leavePermit(await permitFor(order, config, signal), place);
}

async function permitFor(order: RootOrder, { paths }: Config, signal: AbortSignal): Promise<Permitted> {
  if (order.kind === 'rollback') return permitToGoBack((await lookAtJournal(paths.state)).state);
  if (order.kind === 'board')
    return { kind: 'board', board: order.board, digest: payloadDigest(await readImageFile(order.path, signal)) };
  // without a manifest nothing is below a floor, and this permits nothing more
  return { kind: 'downgrade', digest: (await digestOfManifest(openFileSource(order.path), signal)) ?? '' };
}
