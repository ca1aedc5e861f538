import { access, constants } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';

import type { LoadedConfig } from '../config/load-config.ts';
import type { DaemonStatus } from '../control/gateway-state.ts';
import { systemErrorCode } from '../system/errors.ts';
import { acquireLock, DAEMON, findLockHolder } from '../system/files/lock.ts';
import { isUnitStarting } from '../system/processes/unit-state.ts';
import { readJournal } from '../update/journal/journal.ts';
import { createAgent } from './agent.ts';
import type { Agent, AgentDeps } from './agent.ts';
import { timeZoneTrouble } from './doctor/local-time.ts';
import { DaemonError } from './errors.ts';
import { recordTrustChanges } from './security/record-events.ts';
import { wire } from './wiring/wiring.ts';
import type { Runtime } from './wiring/wiring.ts';

/** An agent in this process for one command while no daemon runs. It takes the same lock. Throws `agent-busy`. */
export async function openLocalAgent(
  loaded: LoadedConfig,
  world: Runtime,
  purpose: string,
  signal: AbortSignal,
): Promise<Agent> {
  await refuseStranger(loaded.config.paths.state);
  await using opened = new AsyncDisposableStack();
  opened.use(await acquireLock(lockPath(loaded), purpose, signal));
  const configProblem = async (): Promise<string | undefined> => timeZoneTrouble(world, signal);
  const wiring = opened.use(await wire(loaded.config, { ...world, configProblem }, undefined, signal));
  await recordTrustChanges(wiring.security, loaded, wiring.trust, signal);
  return createAgent({ daemon: false, warnings: warningsOf(loaded), wiring: () => wiring, resources: opened.move() });
}

/**
 * A read-only agent, without the lock, also while another process holds it. It changes nothing: its journal is a copy.
 */
export async function openReadOnlyAgent(
  loaded: LoadedConfig,
  world: Runtime,
  daemon: DaemonStatus,
  signal: AbortSignal,
): Promise<Agent> {
  await refuseStranger(loaded.config.paths.state);
  await using opened = new AsyncDisposableStack();
  const holder = await findLockHolder(lockPath(loaded));
  const journal = await readJournal(loaded.config.paths.state);
  const wiring = opened.use(await wire(loaded.config, world, { journal }, signal));
  // The daemon holds the lock but does not respond: it starts, it hangs, or its sockets are gone.
  const absence = holder?.purpose === DAEMON ? 'unresponsive' : daemon;
  const seen = absence !== true && (await isUnitStarting(signal)) ? 'starting' : absence;
  const activity =
    holder === undefined || holder.purpose === DAEMON
      ? undefined
      : { process: `${holder.purpose} (process ${holder.pid})` };
  const { problem } = loaded;
  return createAgent({
    daemon: seen,
    warnings: warningsOf(loaded),
    wiring: () => wiring,
    ...(problem && { readAgain: async () => Promise.reject(problem) }),
    activity: () => activity,
    resources: opened.move(),
  });
}

/**
 * Throws `state-not-permitted` for a user who may not read the state directory, to whom everything in it would seem
 * broken.
 */
async function refuseStranger(state: string): Promise<void> {
  if (process.geteuid?.() === 0) return;
  try {
    await access(state, constants.R_OK | constants.X_OK);
  } catch (error) {
    const code = systemErrorCode(error);
    if (code !== 'EACCES' && code !== 'EPERM') return;
    throw new DaemonError('state-not-permitted', `this user may not look into ${state}, and no daemon answers`, {
      cause: error,
    });
  }
}

function warningsOf({ warnings }: LoadedConfig): AgentDeps['warnings'] {
  return () => warnings.map(({ message }) => message);
}

function lockPath({ config }: LoadedConfig): string {
  return join(config.paths.run, 'agent.lock');
}
