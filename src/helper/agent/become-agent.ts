import { stat } from 'node:fs/promises';
import process from 'node:process';

import type { Config } from '../../config/config.ts';
import { systemErrorCode } from '../../system/errors.ts';

/**
 * If there is a helper, root's own commands take the agent's rights for the agent's part: the agent can change its
 * folders, and root would write through them. `config` is that of the agent. Before there is such a folder, the owner
 * of the socket is taken.
 */
export async function becomeAgent({ system, paths }: Config): Promise<void> {
  if (system.helper === undefined || process.geteuid?.() !== 0) return;
  const owner = (await ownerOf(paths.state)) ?? (await ownerOf(system.helper));
  if (owner === undefined || owner.uid === 0) return;
  process.setgroups?.([owner.gid]);
  process.setgid?.(owner.gid);
  process.setuid?.(owner.uid);
}

/** The owner of a file; undefined: it does not exist. */
async function ownerOf(path: string): Promise<{ readonly uid: number; readonly gid: number } | undefined> {
  try {
    return await stat(path);
  } catch (error) {
    if (systemErrorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}
