import { join } from 'node:path';

import type { Config } from '../config/config.ts';

/**
 * The folder of the agent's own files, such as identity and spool, within the state directory, which belongs to the
 * helper.
 */
const FOLDER = 'agent';

/**
 * The configuration for the agent's process. If there is a helper, journal, floors and lists are in a folder that the
 * agent cannot enter.
 */
export function agentSide(config: Config): Config {
  const { system, paths } = config;
  if (system.helper === undefined) return config;
  return { ...config, paths: { ...paths, state: agentFolder(paths.state) } };
}

/** Belongs to the user of the agent, until one process that does both has started after it. */
export function agentFolder(state: string): string {
  return join(state, FOLDER);
}
