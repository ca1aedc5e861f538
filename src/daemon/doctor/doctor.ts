import { rm } from 'node:fs/promises';
import { join } from 'node:path';

import { partialFlashAdvice } from '../../control/partial-flash.ts';
import { describePackage } from '../../control/presentation/rows/package-rows.ts';
import { formatTime, systemOffset } from '../../control/presentation/time.ts';
import type { Activity, DoctorFinding } from '../../control/reports.ts';
import { McuError } from '../../mcu/errors.ts';
import { SerialError } from '../../serial/errors.ts';
import { isPortDenied } from '../../serial/port-holders.ts';
import { valueOrError } from '../../system/errors.ts';
import type { AgentError } from '../../system/errors.ts';
import { replaceFileDurably, StorageError } from '../../system/files/durable-file.ts';
import { maskAddresses } from '../../system/log/secrets.ts';
import { isPlausible } from '../../system/time/wall-clock.ts';
import { UpdateError } from '../../update/errors.ts';
import { listBoards } from '../boards.ts';
import { DaemonError } from '../errors.ts';
import { listPackages } from '../packages.ts';
import { describeKey, isUsable, NO_KEY, NO_KEY_LEFT } from '../wiring/trust.ts';
import type { Wiring } from '../wiring/wiring.ts';
import { examineCompiledCode } from './compiled-code.ts';
import { finding } from './finding.ts';
import type { Warning } from './finding.ts';
import { examineWatchdog, readWatchdog } from './hardware-watchdog.ts';
import { lookAtHealthUnits } from './health-units.ts';
import { examineLocalTime } from './local-time.ts';
import { tryUsers } from './program-users.ts';
import { refuseExposedState, refuseMisplacedState, stateWarning } from './state-directory.ts';
import { describeFreeSpace } from './state-space.ts';

/** The gateway, and the operation that is running. */
interface Examined extends Wiring {
  readonly activity: Activity | undefined;
}

/**
 * Checks one requirement of an update: returns the finding, or throws an AgentError with the problem. Returns undefined
 * if this gateway does not need it.
 */
interface Check {
  readonly name: string;
  readonly look: (examined: Examined, signal: AbortSignal) => Promise<string | Warning | undefined>;
}

const checksBefore: readonly Check[] = [
  { name: 'serial number', look: async ({ serialNumber }) => serialNumber },
  { name: 'state directory', look: lookAtStateDirectory },
  { name: 'journal', look: lookAtJournal },
  { name: 'trusted keys', look: lookAtKeys },
  { name: 'service', look: lookAtService },
  { name: 'clock', look: lookAtClock },
  { name: 'local time', look: async ({ world }, signal) => examineLocalTime(world, signal) },
  { name: 'broker', look: lookAtBroker },
];

const checksAfter: readonly Check[] = [
  { name: 'packages', look: lookAtPackages },
  { name: 'boards', look: lookAtBoards },
  { name: 'units', look: async ({ config }, signal) => lookAtHealthUnits(config, signal) },
  { name: 'users of programs', look: async ({ config }, signal) => tryUsers(config, signal) },
  { name: 'watchdog', look: lookAtWatchdog },
  { name: 'compiled code', look: async (_, signal) => examineCompiledCode(signal) },
];

/**
 * Runs all checks, whichever of them fail. Changes nothing, except that it writes a harmless boot variable, and a file
 * that it removes.
 */
export async function diagnose(
  wiring: Wiring,
  activity: Activity | undefined,
  signal: AbortSignal,
): Promise<readonly DoctorFinding[]> {
  const examined = { ...wiring, activity };
  const findings: DoctorFinding[] = [];
  for (const { name, look } of checksBefore) {
    const found = await finding(name, async () => look(examined, signal));
    if (found !== undefined) findings.push(found);
  }
  const { examineEngine } = await import('./engine-checks.ts');
  findings.push(...(await examineEngine(wiring, signal)));
  for (const { name, look } of checksAfter) {
    const found = await finding(name, async () => look(examined, signal));
    if (found !== undefined) findings.push(found);
  }
  return findings;
}

function timeText(atMs: number): string {
  return formatTime(new Date(atMs).toISOString(), { nowMs: atMs, localOffset: systemOffset }, 'log');
}

/** Compares the clock with the service's, if that has answered. */
async function lookAtClock({ world, trust }: Wiring): Promise<string> {
  const nowMs = world.clock.nowMs();
  const shown = timeText(nowMs);
  if (!isPlausible(nowMs)) throw new UpdateError('clock-unsynchronized', `the clock shows ${shown}, which cannot be`);
  const { serviceTimeMs } = trust;
  if (serviceTimeMs === undefined) return shown;
  if (trust.agreesWithService(nowMs) === true) return `${shown}, as the service's`;
  throw new UpdateError('clock-unsynchronized', `the clock shows ${shown}, the service's ${timeText(serviceTimeMs)}`);
}

async function lookAtJournal({ journal, config }: Wiring): Promise<string | undefined> {
  if (config.targets.length === 0) return undefined;
  const { phase } = journal.state;
  if (phase.kind !== 'lost') return `phase ${phase.kind}`;
  throw journal.missing ?? new StorageError('read', join(config.paths.state, 'journal.json'), 'its content was lost');
}

/** Checks the watchdog, which ends a slot that hangs before the agent starts. */
async function lookAtWatchdog({ bootloader }: Wiring, signal: AbortSignal): Promise<string | Warning | undefined> {
  return bootloader === undefined ? undefined : examineWatchdog(await readWatchdog(signal));
}

async function lookAtStateDirectory({ config }: Wiring): Promise<string> {
  await refuseMisplacedState(config);
  await refuseExposedState(config);
  const path = join(config.paths.state, '.doctor');
  await replaceFileDurably(path, 'written by agent doctor\n');
  await rm(path, { force: true });
  const room = await describeFreeSpace(config);
  const doubt = await stateWarning(config);
  return `${config.paths.state} is writable, ${room}${doubt === undefined ? '' : `; ${doubt}`}`;
}

async function lookAtKeys({ config, trust }: Wiring, signal: AbortSignal): Promise<string> {
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

async function lookAtService(wiring: Wiring, signal: AbortSignal): Promise<string> {
  const { session, config } = wiring;
  const seen = await session.look(signal);
  if (seen !== undefined)
    return `${addressOf(config)} knows this gateway as thing ${seen.thingId}, version ${seen.version.name}`;
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
async function lookAtBroker({ messaging }: Wiring): Promise<string | undefined> {
  if (messaging === undefined) return undefined;
  const { url, state, problem } = messaging.report;
  if (problem !== undefined) throw problem;
  return `${url}, ${state}`;
}

/** Lists the installed packages. A manually replaced package is not a problem. */
async function lookAtPackages(examined: Examined, signal: AbortSignal): Promise<string | undefined> {
  const packages = await listPackages(examined, signal);
  return packages.length === 0 ? undefined : packages.map(describePackage).join('; ');
}

async function lookAtBoards(examined: Examined): Promise<string | undefined> {
  const boards = await listBoards(examined);
  const half = boards.find(({ writing }) => writing !== undefined);
  if (half !== undefined && examined.activity?.phase !== 'flashing') {
    throw new McuError(
      'board-half-written',
      `${half.name}: flashing ${half.writing?.name} was interrupted: it may have no program`,
      {
        advice: partialFlashAdvice(half),
      },
    );
  }
  for (const { name, port } of boards)
    if (await isPortDenied(port)) throw new SerialError('port-denied', `${name}: this user may not open ${port}`);
  const missing = boards.find(({ connected }) => !connected);
  if (missing !== undefined) {
    const where = `plug it in, or correct targets.${missing.name}.port; ls /dev/serial/by-id shows what there is`;
    throw new SerialError('port-missing', `${missing.name}: nothing is plugged in at ${missing.port}`, {
      advice: where,
    });
  }
  return boards.length === 0 ? undefined : boards.map(({ name, port }) => `${name} (${port})`).join(', ');
}
