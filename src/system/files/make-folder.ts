import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

import { systemErrorCode } from '../errors.ts';

/**
 * Makes a directory and the missing ones above it. Throws the system's error. Node's own recursive `mkdir` loops
 * forever if an existing directory takes no new names and reports ENOENT, as `/proc` does (Node 24.21).
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
