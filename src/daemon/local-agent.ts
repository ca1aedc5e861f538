import { join } from 'node:path';

import type { LoadedConfig } from '../config/load-config.ts';
import { acquireLock } from '../system/lock.ts';
import { Agent } from './agent.ts';
import { wire } from './wiring.ts';
import type { World } from './wiring.ts';

/** The agent in this process, for one command, while no daemon runs: under the same lock. Throws `agent-busy`. */
export async function openLocalAgent(loaded: LoadedConfig, world: World, signal: AbortSignal): Promise<Agent> {
  await using opened = new AsyncDisposableStack();
  opened.use(await acquireLock(join(loaded.config.paths.run, 'agent.lock'), 'command line', signal));
  const wiring = opened.use(await wire(loaded.config, world, undefined, signal));
  return new Agent({
    wiring: () => wiring,
    daemon: false,
    nextLookAtMs: () => undefined,
    warnings: () => loaded.warnings.map(({ message }) => message),
    resources: opened.move(),
  });
}
