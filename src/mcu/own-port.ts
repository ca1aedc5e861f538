import { isSameDevice } from '../system/files/same-device.ts';
import { McuError } from './errors.ts';
import { maySharePort } from './settings.ts';
import type { BoardSettings } from './settings.ts';

/** Throws McuError `board-port-shared` if the port of this board leads to another one, under whatever name. */
export async function requireOwnPort(board: BoardSettings, boards: readonly BoardSettings[]): Promise<void> {
  for (const other of boards) {
    if (other.name === board.name || maySharePort(board, other)) continue;
    if (other.port !== board.port && !(await isSameDevice(board.port, other.port))) continue;
    throw new McuError(
      'board-port-shared',
      `its port ${board.port} and the port ${other.port} of ${other.name} are one device`,
    );
  }
}
