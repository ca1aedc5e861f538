import type { Stats } from 'node:fs';
import { stat } from 'node:fs/promises';
import process from 'node:process';

import type { Config } from '../../config/config.ts';
import { systemErrorCode } from '../../system/errors.ts';

/**
 * If there is a helper, root's own commands take the agent's rights for the agent's part: the agent can change its
 * folders, and root would write through them. `config` is that of the agent. Before there is such a folder, the owner
 * of the socket is taken. The ports of boards are opened with their group, as the daemon's unit gives it.
 */
export async function becomeAgent(config: Config): Promise<void> {
  const { system, paths } = config;
  if (system.helper === undefined || process.geteuid?.() !== 0) return;
  const owner = (await factsOf(paths.state)) ?? (await factsOf(system.helper));
  if (owner === undefined || owner.uid === 0) return;
  process.setgroups?.([owner.gid, ...(await groupsOfPorts(config))]);
  process.setgid?.(owner.gid);
  process.setuid?.(owner.uid);
}

/** The groups that may use the ports of boards, mostly dialout; never that of root. */
async function groupsOfPorts({ targets }: Config): Promise<readonly number[]> {
  const groups = new Set<number>();
  for (const target of targets) {
    const facts = target.kind === 'mcu' ? await factsOf(target.port) : undefined;
    if (facts?.isCharacterDevice() === true && facts.gid !== 0) groups.add(facts.gid);
  }
  return [...groups];
}

/** Undefined: there is no such file. */
async function factsOf(path: string): Promise<Stats | undefined> {
  try {
    return await stat(path);
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(systemErrorCode(error) ?? '')) return undefined;
    throw error;
  }
}
