import { stat } from 'node:fs/promises';
import process from 'node:process';

import type { ConfigCheck } from '../../cli/context.ts';
import { checkConfig } from '../../config/check/check-config.ts';
import type { Config } from '../../config/config.ts';
import type { Finding } from '../../config/cross-check.ts';
import { ConfigError } from '../../config/errors.ts';
import { loadConfig } from '../../config/load-config.ts';
import { fixHint, readConfigText, withLines } from '../../config/read-config.ts';
import { createBootloader, checkBootStorage } from '../../slots/bootloaders/create-bootloader.ts';
import { findPersistence } from '../../slots/volatile-state.ts';
import { findSerialNumber } from '../../system/device/serial-number.ts';
import { AgentError, valueOrError, valueOrUndefined } from '../../system/errors.ts';
import { silentLog } from '../../system/log/log.ts';
import { runProgram } from '../../system/processes/child-process.ts';
import type { Environment } from '../../system/processes/environment.ts';
import { systemClock } from '../../system/time/clock.ts';
import { DaemonError } from '../errors.ts';
import { hasBootloader } from '../wiring/settings.ts';
import { examineLocalTime } from './local-time.ts';
import { checkHealthUnits } from './programs.ts';
import { refuseExposedState, refuseMisplacedState, stateWarning } from './state-directory.ts';

const ROOT = 0;
const BOOT_NOT_ASKED = 'the boot environment was not asked, since it is root’s: sudo agent config check';

/**
 * Checks the file, then its effect on this gateway. Throws ConfigError, or the problem of the state directory. If root
 * owns the configuration and this user is another one, files that this user may not see are not an error.
 */
export async function checkOnGateway(
  path: string,
  environment: Environment,
  signal: AbortSignal,
  ourUid = process.geteuid?.() ?? ROOT,
): Promise<ConfigCheck> {
  const isRoots = ourUid !== ROOT && (await ownerOf(path)) === ROOT;
  const { problems, warnings } = await checkConfig(path, environment, { kind: 'gateway', findSerialNumber, isRoots });
  if (problems.length > 0) throw new ConfigError('config-invalid', path, problems, fixHint(path));
  const { config } = await loadConfig(path, environment);
  await examineLocalTime({ clock: systemClock }, signal);
  await refuseMisplacedState(config);
  await refuseExposedState(config);
  const doubt = await stateWarning(config);
  const told = [...warnings.map(({ message }) => message), ...(doubt === undefined ? [] : [doubt])];
  const text = await readConfigText(path);
  told.push(...withLines(await doubtsOfUnits(config, signal), text).map(({ message }) => message));
  if (isRoots) return { path, warnings: config.targets.some(hasBootloader) ? [...told, BOOT_NOT_ASKED] : told };
  const boot = await checkBootEnvironment(config, signal);
  if (boot.problems.length > 0)
    throw new ConfigError('config-invalid', path, withLines(boot.problems, text), fixHint(path));
  return { path, warnings: [...told, ...withLines(boot.warnings, text).map(({ message }) => message)] };
}

/** The image that comes next may bring the unit along. */
async function doubtsOfUnits(config: Config, signal: AbortSignal): Promise<readonly Finding[]> {
  const found = await valueOrError(checkHealthUnits(config, signal));
  if (!(found instanceof DaemonError)) return [];
  return [{ path: ['update', 'health', 'units'], message: `${found.message} (${found.advice})` }];
}

/**
 * Checks before there is a configuration. Throws if the state directory cannot be used with these slots. Returns notes
 * for the operator, who may choose others.
 */
export async function checkStateFirst(
  state = '/var/lib/thing-agent',
  slots: readonly { readonly A: string; readonly B: string }[],
): Promise<readonly string[]> {
  const place = { paths: { state }, targets: slots.map((pair) => ({ kind: 'slots' as const, slots: pair })) };
  await refuseMisplacedState(place);
  const doubt = await stateWarning(place);
  if (doubt !== undefined) return [doubt];
  const isInMemory = slots.length === 0 && (await findPersistence(state)).kind === 'memory';
  return isInMemory ? [`${state} is in memory: partitions as slots would be refused (mount the state partition)`] : [];
}

async function ownerOf(path: string): Promise<number | undefined> {
  return (await valueOrUndefined(stat(path)))?.uid;
}

/**
 * Checks the boot environment without changing it: whether it can be read, whether it names the slots, and whether the
 * bootloader can count a trial in it.
 */
async function checkBootEnvironment(
  { targets }: Config,
  signal: AbortSignal,
): Promise<Readonly<Record<'problems' | 'warnings', readonly Finding[]>>> {
  const target = targets.find(hasBootloader);
  if (target === undefined) return { problems: [], warnings: [] };
  const bootloader = await createBootloader(target, { mountedSlot: async () => undefined, log: silentLog });
  const said = await valueOrError(bootloader.inspect(signal));
  const place = await valueOrError(checkBootStorage(target.bootloader, { run: runProgram }, signal));
  const path = ['targets', target.name, 'bootloader'];
  const finding = (message: string): Finding => ({ path, message: `${path.join('.')}: ${message}` });
  const { weakness } = place instanceof AgentError ? {} : place;
  const errors = [said, place].filter((found) => found instanceof AgentError);
  return {
    problems: [...new Set(errors.map(({ message, advice }) => `${message} (${advice})`))].map(finding),
    warnings: weakness === undefined ? [] : [finding(weakness)],
  };
}
