import type { Board } from '../../../src/mcu/connection.ts';
import { Connection } from '../../../src/mcu/connection.ts';
import { ChipMemory } from '../../../src/mcu/flash/chip-memory.ts';
import { imageOfMemory } from '../../../src/mcu/images/image.ts';
import type { Image } from '../../../src/mcu/images/image.ts';

/** Reads a board's content as flashing does for a backup. Undefined if the board is blank. */
export async function readBack(board: Board, signal: AbortSignal): Promise<Image | undefined> {
  await using connection = await Connection.to(board, signal);
  const { application } = connection.session.chip;
  const memory = await new ChipMemory(connection).read(application, () => {}, signal);
  await connection.leave(signal);
  return imageOfMemory(memory, application.start);
}
