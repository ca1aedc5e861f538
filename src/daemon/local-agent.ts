import { access, constants } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';

import type { LoadedConfig } from '../config/load-config.ts';
import type { DaemonSeen } from '../control/gateway-state.ts';
import { systemErrorCode } from '../system/errors.ts';
import { DAEMON, whoHolds } from '../system/files/lock.ts';
import { Agent } from './agent.ts';
import type { AgentDeps } from './agent.ts';
import { DaemonError } from './errors.ts';
import { lockAgent, mixtureOf } from './processes/one-process.ts';
import { noteWhatCounts } from './security/note-events.ts';
import { wire } from './wiring/wiring.ts';
import type { Before, World } from './wiring/wiring.ts';

const BOTH = 'neither the agent nor its helper runs: this program does the work of both';

/** An agent in this process for one command while no daemon runs. It takes the same lock. Throws `agent-busy`. */
export async function openLocalAgent(
  loaded: LoadedConfig,
  world: World,
  purpose: string,
  signal: AbortSignal,
): Promise<Agent> {
  await refuseStranger(loaded.config.paths.state);
  await using opened = new AsyncDisposableStack();
  if (loaded.aside?.why === 'nobody-there') world.log.warn({}, BOTH);
  opened.use(await lockAgent(loaded, purpose, signal));
  const wiring = opened.use(await wire(loaded.config, world, undefined, signal));
  await noteWhatCounts(wiring.security, loaded, wiring.trust, signal);
  return new Agent({ ...surroundings(loaded, false), wiring: () => wiring, resources: opened.move() });
}

/** An agent that only looks, without the lock and whoever holds it. It changes nothing: its journal is a copy. */
export async function openLook(
  loaded: LoadedConfig,
  world: World,
  daemon: DaemonSeen,
  signal: AbortSignal,
): Promise<Agent> {
  await refuseStranger(loaded.config.paths.state);
  await using opened = new AsyncDisposableStack();
  const holder = await whoHolds(lockPath(loaded));
  const around = { ...world, onlyLooks: true };
  const wiring = opened.use(await wire(loaded.config, around, await copyOf(loaded), signal));
  // The daemon holds the lock but does not answer, or its sockets are gone: nobody can tell what it is doing.
  const seen = holder?.purpose === DAEMON ? 'silent' : daemon;
  const activity =
    holder === undefined || seen === 'silent' ? undefined : { who: `${holder.purpose} (process ${holder.pid})` };
  return new Agent({
    ...surroundings(loaded, seen),
    wiring: () => wiring,
    activity: () => activity,
    resources: opened.move(),
  });
}

/** A copy of the journal; undefined: the helper has the journal, and hands out only copies. */
async function copyOf({ config }: LoadedConfig): Promise<Before | undefined> {
  if (config.system.helper !== undefined) return undefined;
  const { lookAtJournal } = await import('../update/journal/journal.ts');
  return { journal: await lookAtJournal(config.paths.state) };
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

function surroundings(
  loaded: LoadedConfig,
  daemon: DaemonSeen,
): Pick<AgentDeps, 'daemon' | 'looks' | 'warnings' | 'mixture'> {
  return {
    daemon,
    looks: () => undefined,
    warnings: () => loaded.warnings.map(({ message }) => message),
    mixture: async () => mixtureOf(loaded),
  };
}

function lockPath({ config }: LoadedConfig): string {
  return join(config.paths.run, 'agent.lock');
}
