import { join } from 'node:path';

import { built } from '../boards/build.ts';

const source = join(import.meta.dirname, 'libmodbus-server.c');

/** Returns the path of a Modbus server by libmodbus, an implementation by others. Its source tells its arguments and its registers. */
export async function libmodbusServer(): Promise<string> {
  return built('libmodbus-server', [source], `gcc -O1 -Wall ${source} -I/usr/include/modbus -lmodbus -o`);
}
