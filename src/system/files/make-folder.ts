import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

import { systemErrorCode } from '../errors.ts';

/**
 * Makes a folder and the missing ones above it. Throws the system's error. The `recursive` of Node's own `mkdir` never
 * ends where a folder that exists takes no new names and says ENOENT, as `/proc` does (Node 24.21).
 */
export async function makeFolder(path: string, mode: number, isParentThere = false): Promise<void> {
  try {
    await mkdir(path, { mode });
  } catch (error) {
    const code = systemErrorCode(error);
    if (code === 'EEXIST' && (await stat(path)).isDirectory()) return;
    if (code !== 'ENOENT' || isParentThere || dirname(path) === path) throw error;
    await makeFolder(dirname(path), mode);
    await makeFolder(path, mode, true);
  }
}
