import type { BoardPlan, BoardProbe, BoardReport } from '../control/api/board-report.ts';
import { planFlash, probe, resetBoard } from '../mcu/flash/flash.ts';
import { isPortPresent } from '../serial/port-holders.ts';
import { AgentError } from '../system/errors.ts';
import { SerialQueue } from '../system/serial-queue.ts';
import { boardNamed, readImage } from './board-files.ts';
import type { NamedFile } from './board-files.ts';
import type { StoredBoardState } from './local-boards.ts';
import type { Wiring } from './wiring/wiring.ts';

const NOTHING_KEPT: StoredBoardState = {
  chip: undefined,
  imageDigest: undefined,
  imageName: undefined,
  flashedAt: undefined,
  attempts: undefined,
  roundTripMs: undefined,
};

/** Returns the configured boards, as far as they are known without communication. */
export async function listBoards(wiring: Wiring): Promise<readonly BoardReport[]> {
  return wiring.boards.size === 0 ? [] : boardReports(wiring, await wiring.boardRoom.kept());
}

/** The same for a view that always responds: without readable records, only the configuration. */
export async function showBoards(wiring: Wiring): Promise<readonly BoardReport[]> {
  try {
    return await listBoards(wiring);
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    return boardReports(wiring, new Map());
  }
}

async function boardReports(
  { config }: Wiring,
  kept: ReadonlyMap<string, StoredBoardState>,
): Promise<readonly BoardReport[]> {
  const reports: BoardReport[] = [];
  for (const settings of config.targets) {
    if (settings.kind !== 'mcu') continue;
    const { name, port, protocol } = settings;
    const connected = await isPortPresent(port);
    reports.push({ name, port, protocol, connected, ...(kept.get(name) ?? NOTHING_KEPT) });
  }
  return reports;
}

export async function probeBoard({ boards }: Wiring, name: string, signal: AbortSignal): Promise<BoardProbe> {
  const { chip, can, boots, roundTripMs } = await probe(boardNamed(name, boards).board, signal);
  return { name, chip: chip.name, capabilities: can, boots, roundTripMs };
}

/** Only one image is in memory at a time, for any number of requested plans. */
const plans = new SerialQueue(1);

/** Tells how much flashing this file would change; changes nothing. */
export async function planBoard(
  { boards }: Wiring,
  name: string,
  named: NamedFile,
  signal: AbortSignal,
): Promise<BoardPlan> {
  const { board, readImage: read } = boardNamed(name, boards);
  const plan = async (): ReturnType<typeof planFlash> =>
    planFlash(await read(await readImage(named, signal), named.path), board, signal);
  const { chip, unitsTotal, unitsDifferent } = await plans.run(plan, signal);
  return { name, chip: chip.name, unitsTotal, unitsDifferent };
}

export async function restartBoard({ boards }: Wiring, name: string, signal: AbortSignal): Promise<void> {
  await resetBoard(boardNamed(name, boards).board, signal);
}
