import { rm, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';

import type { Config } from '../../config/config.ts';
import { stateCodes } from '../../control/codes/state-codes.ts';
import { partialFlashAdvice } from '../../control/partial-flash.ts';
import { formatBytes } from '../../control/presentation/bytes.ts';
import { describePackage } from '../../control/presentation/rows/package-rows.ts';
import { formatTime, systemOffset } from '../../control/presentation/time.ts';
import type { Activity, DoctorFinding } from '../../control/reports.ts';
import { McuError } from '../../mcu/errors.ts';
import { requireOwnPort } from '../../mcu/own-port.ts';
import { SerialError } from '../../serial/errors.ts';
import { isPortDenied } from '../../serial/port-holders.ts';
import { valueOrError, valueOrUndefined } from '../../system/errors.ts';
import type { AgentError } from '../../system/errors.ts';
import { replaceFileDurably, StorageError } from '../../system/files/durable-file.ts';
import { maskAddresses } from '../../system/log/secrets.ts';
import { isPlausible } from '../../system/time/wall-clock.ts';
import { UpdateError } from '../../update/errors.ts';
import { isForgotten, STAGING_ROOM_BYTES } from '../../update/journal/state.ts';
import type { AgentDeps } from '../agent.ts';
import { DaemonError } from '../errors.ts';
import { listSensors } from '../measurements.ts';
import { listPackages } from '../packages.ts';
import { describeKey, isUsable, NO_KEY, NO_KEY_LEFT } from '../wiring/trust.ts';
import type { Wiring } from '../wiring/wiring.ts';
import { examineCompiledCode } from './compiled-code.ts';
import { engineChecks, examineWatchdog, readWatchdog } from './engine-checks.ts';
import { runChecks } from './findings.ts';
import type { Checks, Warning } from './findings.ts';
import { examineLocalTime } from './local-time.ts';
import { describeConfig } from './preconditions.ts';
import { checkHealthUnits, tryUsers } from './programs.ts';
import { refuseExposedState, refuseMisplacedState, stateWarning } from './state-directory.ts';
import { telemetryFindings } from './telemetry-checks.ts';

interface Examined extends Wiring {
  /** The operation that is running. */
  readonly activity: Activity | undefined;
  readonly readAgain: AgentDeps['readAgain'];
}

const checks: Checks<Examined> = {
  configuration: async ({ readAgain }) => readAgain && describeConfig(await readAgain()),
  'serial number': async ({ serialNumber }) => serialNumber,
  'state directory': checkStateDirectory,
  journal: checkJournal,
  'trusted keys': checkKeys,
  service: checkService,
  clock: checkClock,
  'local time': async ({ world }, signal) => examineLocalTime(world, signal),
  broker: checkBroker,
  ...engineChecks,
  packages: checkPackages,
  boards: checkBoards,
  units: async ({ config }, signal) => checkHealthUnits(config, signal),
  'users of programs': async ({ config }, signal) => tryUsers(config, signal),
  watchdog: async ({ bootloader }, signal) => bootloader && examineWatchdog(await readWatchdog(signal)),
  'compiled code': async (_, signal) => examineCompiledCode(signal),
};

/** Runs all checks. Changes nothing, except that it writes a harmless boot variable, and a file that it removes. */
export async function diagnose(deps: AgentDeps, signal: AbortSignal): Promise<readonly DoctorFinding[]> {
  const examined = { ...deps.wiring(), activity: deps.activity?.(), readAgain: deps.readAgain };
  const findings = await runChecks(checks, examined, signal);
  return [...findings, ...telemetryFindings(deps.telemetry?.()?.status(), listSensors(deps))];
}

function timeText(atMs: number): string {
  return formatTime(new Date(atMs).toISOString(), { nowMs: atMs, localOffset: systemOffset }, 'log');
}

/** Compares the clock with the service's, if that has answered. */
async function checkClock({ world, trust }: Wiring): Promise<string> {
  const nowMs = world.clock.nowMs();
  const shown = timeText(nowMs);
  if (!isPlausible(nowMs)) throw new UpdateError('clock-unsynchronized', `the clock shows ${shown}, which cannot be`);
  const { serviceTimeMs } = trust;
  if (serviceTimeMs === undefined) return shown;
  if (trust.agreesWithService(nowMs) === true) return `${shown}, matches the service`;
  throw new UpdateError('clock-unsynchronized', `the clock shows ${shown}, the service's ${timeText(serviceTimeMs)}`);
}

async function checkJournal({ journal, config }: Wiring): Promise<string | Warning | undefined> {
  if (config.targets.length === 0) return undefined;
  const { phase } = journal.state;
  const { means: detail, advice } = stateCodes['journal-lost'];
  if (isForgotten(journal.state)) return { detail, advice };
  if (phase.kind !== 'lost') return `phase ${phase.kind}`;
  throw journal.missing ?? new StorageError('read', join(config.paths.state, 'journal.json'), 'its content was lost');
}

async function checkStateDirectory({ config }: Wiring): Promise<string> {
  await refuseMisplacedState(config);
  await refuseExposedState(config);
  const path = join(config.paths.state, '.doctor');
  await replaceFileDurably(path, 'written by agent doctor\n');
  await rm(path, { force: true });
  const room = await describeFreeSpace(config);
  const doubt = await stateWarning(config);
  return `${config.paths.state} is writable, ${room}${doubt === undefined ? '' : `; ${doubt}`}`;
}

async function checkKeys({ config, trust }: Wiring, signal: AbortSignal): Promise<string> {
  const { allowUnsigned } = config.trust;
  const keyring = await trust.keyring(signal);
  if (keyring.damage !== undefined) throw keyring.damage;
  const unsigned = allowUnsigned ? 'unsigned firmware is permitted' : 'unsigned firmware is refused';
  const list = keyring.list === undefined ? '' : `; trust list ${keyring.list.number}`;
  if (keyring.keys.some((key) => isUsable(key, keyring))) {
    return `${keyring.keys.map((key) => describeKey(key, keyring)).join(', ')}${list}; ${unsigned}`;
  }
  if (allowUnsigned) return `none${list}; ${unsigned}`;
  if (keyring.keys.length > 0) throw new DaemonError('no-trusted-key', NO_KEY_LEFT);
  throw new DaemonError('no-trusted-key', NO_KEY);
}

async function checkService(wiring: Wiring, signal: AbortSignal): Promise<string> {
  const { session, config } = wiring;
  const seen = await session.readCurrent(signal);
  if (seen !== undefined)
    return `${addressOf(config)} knows this gateway as Thing ID ${seen.thingId}, version ${seen.version.name}`;
  const cause = await whyNotActivated(wiring, signal);
  const why = cause === undefined ? '' : `: ${cause.message} (${cause.code})`;
  throw new DaemonError('not-activated', `this gateway is not activated at ${addressOf(config)} yet${why}`, {
    ...(cause?.advice !== undefined && { advice: cause.advice }),
  });
}

/** Returns the reason: the present state of the connection, otherwise the result of the last request. */
async function whyNotActivated({ session, reach }: Wiring, signal: AbortSignal): Promise<AgentError | undefined> {
  return (await valueOrError(reach(signal))) ?? session.lastFailure;
}

function addressOf({ service }: Wiring['config']): string {
  return maskAddresses(service.transport === 'messaging' ? (service.messaging?.url ?? service.url) : service.url);
}

/** Checks the connection to the broker, which only a daemon has. */
async function checkBroker({ messaging }: Wiring): Promise<string | undefined> {
  if (messaging === undefined) return undefined;
  const { url, state, problem } = messaging.report;
  if (problem !== undefined) throw problem;
  return `${url}, ${state}`;
}

/** Lists the installed packages. A manually replaced package is not a problem. */
async function checkPackages(examined: Examined, signal: AbortSignal): Promise<string | undefined> {
  const packages = await listPackages(examined, signal);
  return packages.length === 0 ? undefined : packages.map(describePackage).join('; ');
}

async function checkBoards(examined: Examined): Promise<string | undefined> {
  const boards = await examined.boards.list();
  const half = boards.filter(({ writing }) => writing !== undefined);
  if (half[0] !== undefined && examined.activity?.phase !== 'flashing') {
    const which = half.map(({ name, writing }) => `${name}: flashing ${writing?.name} was interrupted`).join('; ');
    const message = `${which}: ${half.length === 1 ? 'it' : 'each'} may have no program`;
    throw new McuError('board-half-written', message, { advice: partialFlashAdvice(half[0]) });
  }
  for (const { name, port } of boards)
    if (await isPortDenied(port)) throw new SerialError('port-denied', `${name}: this user may not open ${port}`);
  const settings = examined.config.targets.filter((target) => target.kind === 'mcu');
  for (const board of settings) {
    const shared = await valueOrError(requireOwnPort(board, settings));
    if (shared instanceof McuError) throw shared.on(board.name);
  }
  const missing = boards.filter(({ connected }) => !connected);
  if (missing.length > 0) {
    const which = missing.map(({ name, port }) => `${name}: nothing is plugged in at ${port}`).join('; ');
    const members = missing.map(({ name }) => `targets.${name}.port`).join(', ');
    const advice = `plug in what is missing, or correct ${members}; ls /dev/serial/by-id shows what there is`;
    throw new SerialError('port-missing', which, { advice });
  }
  return boards.length === 0 ? undefined : boards.map(({ name, port }) => `${name} (${port})`).join(', ');
}

/** The part of a configuration that determines the required space in the state directory. */
export interface StateUse {
  readonly paths: Pick<Config['paths'], 'state'>;
  readonly targets: readonly unknown[];
  readonly measurements: readonly unknown[];
  readonly telemetry: {
    readonly minFreeBytes: number;
    readonly maxBytes: number;
  };
}

/**
 * Describes the free space of the state directory for an operator. Throws `state-nearly-full` if an update would not
 * begin, or if no further measurement could be queued on disk. Existing queued data needs no further space.
 */
export async function describeFreeSpace({ paths, targets, measurements, telemetry }: StateUse): Promise<string> {
  const { bavail, blocks, bsize } = await statfs(paths.state);
  if (blocks === 0) return 'its file system does not say what is free';
  const free = bavail * bsize;
  const forUpdate = targets.length === 0 ? 0 : STAGING_ROOM_BYTES;
  const reserve = measurements.length === 0 ? 0 : telemetry.minFreeBytes;
  if (free < forUpdate + reserve) {
    const needs = [
      ...(forUpdate === 0 ? [] : [`an update needs ${formatBytes(forUpdate)} there`]),
      ...(reserve === 0 ? [] : [`measurements leave ${formatBytes(reserve)} free ([telemetry] min_free_bytes)`]),
    ];
    const message = `${formatBytes(free)} are free for ${paths.state}: ${needs.join(', and ')}`;
    throw new DaemonError('state-nearly-full', message, {
      advice: `make room there: du -xah ${paths.state} | sort -h`,
    });
  }
  const held = (await valueOrUndefined(stat(join(paths.state, 'queue.db'))))?.size ?? 0;
  const { maxBytes } = telemetry;
  const isShort = measurements.length > 0 && free - forUpdate - reserve < maxBytes - held;
  const short = `, so that less than [telemetry] max_bytes (${formatBytes(maxBytes)}) of measurements can wait there`;
  return `${formatBytes(free)} are free${isShort ? short : ''}`;
}
