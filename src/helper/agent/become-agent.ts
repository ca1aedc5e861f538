import type { Stats } from 'node:fs';
import { stat } from 'node:fs/promises';
import process from 'node:process';

import type { Config } from '../../config/config.ts';
import { systemErrorCode } from '../../system/errors.ts';

export interface AgentUser {
  readonly uid: number;
  readonly gid: number;
}

/**
 * If there is a helper, root's own commands take the agent's rights for the agent's part: the agent can change its
 * folders, and root would write through them. `config` is that of the agent. The ports of boards are opened with their
 * group, as the daemon's unit gives it.
 */
export async function becomeAgent(config: Config): Promise<void> {
  if (config.system.helper === undefined || process.geteuid?.() !== 0) return;
  const owner = await findAgentUser(config);
  if (owner === undefined) return;
  process.setgroups?.([owner.gid, ...(await groupsOfPorts(config))]);
  process.setgid?.(owner.gid);
  process.setuid?.(owner.uid);
}

/**
 * The user of the agent, who owns its folder; before there is such a folder, the owner of the socket. Undefined: both
 * are root's, or missing, so nothing here was made for two processes. `config` is that of the agent.
 */
export async function findAgentUser({ system, paths }: Config): Promise<AgentUser | undefined> {
  for (const path of [paths.state, system.helper]) {
    const owner = path === undefined ? undefined : await factsOf(path);
    if (owner !== undefined) return owner.uid === 0 ? undefined : owner;
  }
  return undefined;
}

/** The groups that may use the ports of boards, mostly dialout; never that of root. */
export async function groupsOfPorts({ targets }: Pick<Config, 'targets'>): Promise<readonly number[]> {
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
