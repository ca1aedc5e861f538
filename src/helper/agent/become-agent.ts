import { stat } from 'node:fs/promises';
import process from 'node:process';

import type { Config } from '../../config/config.ts';
import { systemErrorCode } from '../../system/errors.ts';

/**
 * Where there is a helper, root's own commands do the agent's part with the agent's rights: what lies in the agent's folders is the
 * agent's to change, and root would write through it. `config`: as the agent goes by it. Before there is such a folder, the socket
 * says whose it is.
 */
export async function becomeAgent({ system, paths }: Config): Promise<void> {
  if (system.helper === undefined || process.geteuid?.() !== 0) return;
  const owner = (await ownerOf(paths.state)) ?? (await ownerOf(system.helper));
  if (owner === undefined || owner.uid === 0) return;
  process.setgroups?.([owner.gid]);
  process.setgid?.(owner.gid);
  process.setuid?.(owner.uid);
}

/** Undefined: nothing is there. */
async function ownerOf(path: string): Promise<{ readonly uid: number; readonly gid: number } | undefined> {
  try {
    return await stat(path);
  } catch (error) {
    if (systemErrorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}
