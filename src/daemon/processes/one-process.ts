import { access, constants, readdir, stat } from 'node:fs/promises';
import { connect } from 'node:net';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';

import { findMixture } from '../../config/check/two-processes.ts';
import type { Aside, LoadedConfig } from '../../config/load-config.ts';
import { agentSide } from '../../helper/agent-side.ts';
import { findAgentUser } from '../../helper/agent/become-agent.ts';
import { systemErrorCode, valueUnlessMissing } from '../../system/errors.ts';
import { AgentBusyError, acquireLock } from '../../system/files/lock.ts';
import type { AgentLock } from '../../system/files/lock.ts';
import { runProgram } from '../../system/processes/child-process.ts';
import { occurrence } from '../../system/socket.ts';
import { SystemError } from '../../system/system-errors.ts';
import type { SeenMixture } from '../doctor/mixture.ts';
import { DaemonError } from '../errors.ts';

/** The installed systemd/own-folders. */
const OWN_FOLDERS = '/usr/lib/thing-agent/own-folders';
const OWN_FOLDERS_MS = 60_000;
const CONNECT_MS = 10_000;
/** More than the ten seconds after which a helper ends that nobody asks. */
const HELPER_ENDS_MS = 20_000;
const LOCK_PAUSE_MS = 250;

export interface Wish {
  /** A person asks for one process. */
  readonly single: boolean;
  /** The program works by itself, and not only asks or looks. */
  readonly works: boolean;
}

/**
 * The configuration for this process if it names a helper. It is that of the agent, unless this process does both: a
 * person as root wants it, or works while neither agent nor helper runs, or there are no two users. Throws
 * `single-not-permitted`.
 */
export async function asOneOrTwo(loaded: LoadedConfig, { single, works }: Wish): Promise<LoadedConfig> {
  const { config } = loaded;
  const { helper } = config.system;
  if (helper === undefined) return loaded;
  const agents = agentSide(config);
  if (single) {
    await requireRightToBoth(config.paths.state);
    return alone(loaded, { helper, why: 'asked' });
  }
  if (process.geteuid?.() !== 0) return { ...loaded, config: agents };
  if ((await findAgentUser(agents)) === undefined) return alone(loaded, { helper, why: 'no-other-user' });
  if (works && !(await listens(helper))) return alone(loaded, { helper, why: 'nobody-there' });
  return { ...loaded, config: agents };
}

/** Why the unit of the agent and its configuration do not fit together; undefined: they do, or a person wants it so. */
export async function mixtureOf({ config, aside }: LoadedConfig): Promise<SeenMixture | undefined> {
  if (aside?.why === 'asked') return undefined;
  const mixture = await findMixture(config.system.helper ?? aside?.helper);
  return mixture && { ...mixture, hinders: process.geteuid?.() !== 0 };
}

function alone(loaded: LoadedConfig, aside: Aside): LoadedConfig {
  const { config } = loaded;
  return { ...loaded, config: { ...config, system: { ...config.system, helper: undefined } }, aside };
}

async function requireRightToBoth(state: string): Promise<void> {
  if (process.geteuid?.() === 0) return;
  try {
    await access(state, constants.W_OK | constants.X_OK);
  } catch (error) {
    if (systemErrorCode(error) === undefined) throw error;
    throw new DaemonError('single-not-permitted', `this user may not write in ${state}, which is the helper's`);
  }
}

async function listens(path: string): Promise<boolean> {
  const socket = connect({ path });
  try {
    await occurrence(socket, 'connect', AbortSignal.timeout(CONNECT_MS));
    return true;
  } catch (error) {
    return systemErrorCode(error) !== 'ENOENT' && systemErrorCode(error) !== 'ECONNREFUSED';
  } finally {
    socket.destroy();
  }
}

/**
 * Promise `one-agent`: takes the lock of the agent, and of the helper if this process does both; then the agent's files
 * are root's again, until the agent has a user of its own the next time. Throws AgentBusyError.
 */
export async function lockAgent(
  { config, aside }: LoadedConfig,
  purpose: string,
  signal: AbortSignal,
  ownFolders = OWN_FOLDERS,
): Promise<AgentLock> {
  const { run, state } = config.paths;
  await using opened = new AsyncDisposableStack();
  opened.use(await acquireLock(join(run, 'agent.lock'), purpose, signal));
  if (aside !== undefined) {
    const { helper, why } = aside;
    const place = dirname(helper);
    if (await isThere(place))
      opened.use(await lockHelper(join(place, 'helper.lock'), purpose, why === 'no-other-user', signal));
    const own = agentSide({ ...config, system: { ...config.system, helper } }).paths.state;
    await takeFilesBack(own, { run, state, ownFolders }, signal);
  }
  const locks = opened.move();
  return { [Symbol.asyncDispose]: async () => locks.disposeAsync() };
}

/**
 * `isOnlyProcess`: the agent has no user of its own any more. A helper that nobody asks ends by itself, which is waited for;
 * and within the unit of one process the helper's folder cannot be written.
 */
async function lockHelper(
  path: string,
  purpose: string,
  isOnlyProcess: boolean,
  signal: AbortSignal,
): Promise<AgentLock | undefined> {
  const lastMs = performance.now() + (isOnlyProcess ? HELPER_ENDS_MS : 0);
  for (;;) {
    const lock = await tryHelperLock(path, { purpose, mayFail: isOnlyProcess, lastMs }, signal);
    if (lock !== 'held') return lock;
    await sleep(LOCK_PAUSE_MS, undefined, { signal });
  }
}

interface LockTry {
  readonly purpose: string;
  readonly mayFail: boolean;
  /** Until then somebody else may hold it. */
  readonly lastMs: number;
}

async function tryHelperLock(
  path: string,
  { purpose, mayFail, lastMs }: LockTry,
  signal: AbortSignal,
): Promise<AgentLock | 'held' | undefined> {
  try {
    return await acquireLock(path, purpose, signal);
  } catch (error) {
    if (error instanceof AgentBusyError && performance.now() < lastMs) return 'held';
    if (error instanceof AgentBusyError) throw new DaemonError('helper-runs', error.message, { cause: error });
    if (mayFail && error instanceof SystemError) return undefined;
    throw error;
  }
}

/**
 * Takes the agent's files, and its run directory, where it could plant what root goes through. Throws `files-not-taken`
 * where the agent has files of its own that cannot be had without looking at them first.
 */
async function takeFilesBack(
  own: string,
  { run, state, ownFolders }: { readonly run: string; readonly state: string; readonly ownFolders: string },
  signal: AbortSignal,
): Promise<void> {
  if (!(await isThere(own)) || (await stat(own)).uid === process.geteuid?.()) return;
  if (!(await isThere(ownFolders))) {
    if ((await readdir(own)).length === 0) return;
    throw new DaemonError('files-not-taken', `the agent's files are in ${own}, and there is no ${ownFolders}`);
  }
  const env = { STATE_DIRECTORY: state, RUNTIME_DIRECTORY: run, AGENT_LOCK: 'ours' };
  const { exitCode, stderr } = await runProgram([ownFolders, 'root'], { timeoutMs: OWN_FOLDERS_MS, env }, signal);
  if (exitCode !== 0) throw new DaemonError('files-not-taken', `${ownFolders} failed: ${stderr.trim()}`);
}

async function isThere(path: string): Promise<boolean> {
  return (await valueUnlessMissing(stat(path))) !== undefined;
}
