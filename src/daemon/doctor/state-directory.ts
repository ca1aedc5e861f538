import { access, constants, statfs } from 'node:fs/promises';
import { join } from 'node:path';

import type { Config } from '../../config/config.ts';
import { refuseStateOnSlot } from '../../slots/mounts.ts';
import type { SlotsTargetSettings } from '../../slots/settings.ts';
import { findPersistence, rejectStateInMemory } from '../../slots/volatile-state.ts';
import type { FileSystemKind } from '../../slots/volatile-state.ts';
import { AgentError, mapError, systemErrorCode, valueOrError } from '../../system/errors.ts';
import { nodeFs, StorageError } from '../../system/files/durable-file.ts';
import type { DurableFs } from '../../system/files/durable-file.ts';
import { makeFolder } from '../../system/files/make-folder.ts';
import { closeFolder, refuseExposedFolder } from '../../system/files/protected-file.ts';
import type { Log } from '../../system/log/log.ts';
import type { Journal } from '../../update/journal/journal.ts';

/** The part of a configuration with the state directory and the slots. */
export interface StatePlace {
  readonly paths: Pick<Config['paths'], 'state'>;
  readonly targets: readonly (Pick<SlotsTargetSettings, 'kind' | 'slots'> | { readonly kind: 'mcu' | 'package' })[];
}

/** The access to that disk. Default: the machine's own file system. */
export interface StateDisk {
  readonly fs?: DurableFs;
  readonly kindOf?: (path: string) => Promise<FileSystemKind>;
}

/** Makes the state directory if it is missing. Throws if nothing can be kept there. */
export async function ensureStateDirectory(config: Config): Promise<void> {
  await refuseMisplacedState(config);
  await makeStateDirectory(config.paths.state);
}

/**
 * Throws `state-on-slot` if an update would overwrite the state directory or not find it, and `state-unavailable` if a
 * loss of power would erase it.
 */
export async function refuseMisplacedState(config: StatePlace): Promise<void> {
  await refuseStateOnSlot(config.paths.state, slotsOf(config));
  await rejectVolatileState(config);
}

/** Returns a warning about an accepted state directory, if any. */
export async function stateWarning(config: StatePlace): Promise<string | undefined> {
  const { state } = config.paths;
  const keeping = await findPersistence(state);
  if (keeping.kind !== 'unknown') return undefined;
  return `${state} may be in memory: it is written to ${keeping.layer}, outside of this container`;
}

/**
 * Throws `state-unavailable` if the state directory is in memory: its partition is not mounted, and an image with a
 * /var in memory hides that.
 */
async function rejectVolatileState(config: StatePlace, { kindOf }: StateDisk = {}): Promise<void> {
  await rejectStateInMemory(config.paths.state, slotsOf(config), undefined, kindOf);
}

/** Returns both slots of each target that has slots. */
export function slotsOf({ targets }: Pick<StatePlace, 'targets'>): readonly string[] {
  return targets.flatMap((target) => (target.kind === 'slots' ? [target.slots.A, target.slots.B] : []));
}

/**
 * Guarantee `trial-without-state`: file access for everything that must survive a reboot. While the state directory is
 * in memory, every access fails like that to a broken disk. A missing file may only be unmounted, and a written one
 * would be lost at the reboot.
 */
export function stateFs(config: StatePlace, disk: StateDisk = {}): DurableFs {
  const { fs = nodeFs } = disk;
  const admitted = async (): Promise<DurableFs> => {
    await rejectVolatileState(config, disk);
    return fs;
  };
  return {
    open: async (...given) => (await admitted()).open(...given),
    readFile: async (path) => (await admitted()).readFile(path),
    rename: async (from, to) => (await admitted()).rename(from, to),
  };
}

/** Throws `writable-by-others`: a user who can change the agent's records decides which version it installs. */
export async function refuseExposedState({ paths }: Config): Promise<void> {
  await refuseExposedFolder(paths.state);
}

/**
 * Returns the reason why nothing can be installed, for the status, if the state directory is unusable as far as known.
 * Without a daemon's attempt to write there, this predicts the result of a write.
 */
export async function stateBlocker(
  config: Config,
  { trouble }: Journal,
  wasTried: boolean,
): Promise<string | undefined> {
  const look = async (): Promise<void> => {
    await refuseMisplacedState(config);
    if (!wasTried) await refuseUnwritable(config.paths.state);
  };
  const found = trouble ?? (await valueOrError(look()));
  return found instanceof AgentError ? describeStateTrouble(found) : undefined;
}

/** Lists the files in the state directory that other users can change, for the status. */
export async function statePermissionWarnings(config: Config): Promise<readonly string[]> {
  const found = await valueOrError(refuseExposedState(config));
  return found instanceof AgentError ? [found.message] : [];
}

/** Logs each trouble of the state directory once, and its end. The agent works on without it. */
export class StateMonitor {
  readonly #log: Log;
  #told: AgentError | undefined;

  constructor(log: Log) {
    this.#log = log;
  }

  async check({ paths }: Config, journal: Journal): Promise<void> {
    const found = await valueOrError(journal.probe());
    const trouble = found instanceof AgentError ? found : undefined;
    if (trouble?.code === this.#told?.code) return;
    this.#told = trouble;
    if (trouble === undefined) this.#log.info({ path: paths.state }, 'the state directory can be used again');
    else this.#log.error({ code: trouble.code, advice: trouble.advice }, describeStateTrouble(trouble));
  }
}

/**
 * Rejects a directory that root could not write. A directory that only this user may not write is fine, since the
 * agent may.
 */
async function refuseUnwritable(state: string): Promise<void> {
  const file = join(state, 'journal.json');
  try {
    await access(`${state}/.`, constants.W_OK | constants.X_OK);
  } catch (error) {
    const code = systemErrorCode(error);
    if (code === undefined) throw error;
    if (code !== 'EACCES' && code !== 'EPERM') throw new StorageError('write', file, error);
  }
  const { blocks, bfree, files, ffree } = await statfs(state);
  const isFull = (blocks > 0 && bfree === 0) || (files > 0 && ffree === 0); // some file systems report 0 for both
  if (isFull) throw new StorageError('write', file, Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' }));
}

async function makeStateDirectory(path: string): Promise<void> {
  await mapError(makeFolder(path, 0o700), (error) => new StorageError('make', path, error));
}

/**
 * Checks the state directory before anything is read there. Rights of others to write are removed from a directory that
 * is ours, and logged for the rest.
 */
export async function prepareStateDirectory(config: Config, log: Log): Promise<void> {
  const path = config.paths.state;
  try {
    await makeStateDirectory(path);
    if (await closeFolder(path))
      log.error({ path }, 'others may write in the state directory no more: look at what is there');
  } catch (error) {
    if (!(error instanceof AgentError) && systemErrorCode(error) === undefined) throw error;
    const trouble = error instanceof AgentError ? error : new StorageError('close', path, error);
    log.error({ code: trouble.code }, describeStateTrouble(trouble));
  }
  for (const concern of await statePermissionWarnings(config)) log.error({ code: 'writable-by-others' }, concern);
}

function describeStateTrouble(trouble: AgentError): string {
  return `the state directory cannot be used, so nothing is installed: ${trouble.message}`;
}
