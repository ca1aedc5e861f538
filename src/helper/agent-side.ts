import { join } from 'node:path';

import type { Config } from '../config/config.ts';

/** Below the state directory, which is the helper's: what is the agent's own, as identity and spool. */
const FOLDER = 'agent';

/** The configuration as the agent goes by it: where there is a helper, journal, floors and lists are in a folder that it cannot enter. */
export function agentSide(config: Config): Config {
  const { system, paths } = config;
  if (system.helper === undefined) return config;
  return { ...config, paths: { ...paths, state: join(paths.state, FOLDER) } };
}
