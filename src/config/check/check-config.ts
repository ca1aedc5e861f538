import { dirname, isAbsolute } from 'node:path';

import { serialNumberDoubt } from '../../system/device/serial-number.ts';
import type { findSerialNumber } from '../../system/device/serial-number.ts';
import { AgentError } from '../../system/errors.ts';
import { findProgram, findProgramExposures } from '../../system/files/guarded-program.ts';
import { describeExposures, findExposures } from '../../system/files/protected-file.ts';
import type { Exposure } from '../../system/files/protected-file.ts';
import { deviceAt, isSameDevice } from '../../system/files/same-device.ts';
import { runProgram } from '../../system/processes/child-process.ts';
import type { Environment } from '../../system/processes/environment.ts';
import { whyCannotRunAs } from '../../system/processes/program-rights.ts';
import type { RequiredFileKind } from '../../system/settings/values.ts';
import type { Finding } from '../cross-check.ts';
import { idleSettings } from '../cross-check/idle-settings.ts';
import { portUsers, serialPortConflicts } from '../cross-check/serial-ports.ts';
import { findWarnings } from '../cross-check/warnings.ts';
import type { ConfigProblem } from '../errors.ts';
import { describeValue, findingAt } from '../file/problems.ts';
import { applyEnvironment, examineConfig, sortByLine, readConfigText, withLines } from '../read-config.ts';
import { findInImage } from './check-image.ts';
import { permissionProblems, findFileProblem, guarded, MISSING, programs } from './referenced-file.ts';
import { checkReferences, findExposedSecrets, referencesOf } from './references.ts';
import type { CheckedReferences, CheckReference, Reference } from './references.ts';
import { validSubset } from './valid-subset.ts';
import type { ValidSubset } from './valid-subset.ts';

type FindSerialNumber = typeof findSerialNumber;

const LOOK_MS = 10_000;
const LOOK_FOR_SERIAL_MS = 30_000;

export interface ConfigCheck {
  /** In the order of the file. */
  readonly problems: readonly ConfigProblem[];
  readonly warnings: readonly ConfigProblem[];
}

/** The locations in which the files of a configuration are checked. */
export type FileContext =
  | {
      readonly kind: 'gateway';
      /** If omitted, the hardware is not checked. */ readonly findSerialNumber?: FindSerialNumber;
      /** The agent runs as root, unlike this user: an invisible file is not an error. */ readonly isRoots?: boolean;
    }
  /** In a root file system in a folder, on a machine that builds images. */
  | { readonly kind: 'image'; readonly root: string }
  /** Nowhere: only the configuration file itself is checked. */
  | { readonly kind: 'none' };

/**
 * Checks the configuration and everything that it names, and returns all findings. Throws ConfigError only if there
 * is no file, or if it is not TOML.
 */
export async function checkConfig(
  path: string,
  environment: Environment,
  around: FileContext = { kind: 'gateway' },
): Promise<ConfigCheck> {
  const text = await readConfigText(path, around.kind === 'gateway' ? findExposures : async () => []);
  const { file, input, problems } = examineConfig(path, text);
  const right = validSubset(input);
  const { wrong, doubtful } = await checkFiles(right, input, path, around);
  const found = [...(await scheduleFindings(right)), ...wrong];
  const told = [...doubtful, ...suspiciousSerialNumber(right), ...hiddenFiles(right)];
  const overridden =
    file === undefined
      ? []
      : [...applyEnvironment(file, environment).overridden, ...findWarnings(file), ...idleSettings(file, input)];
  const warnings = sortByLine(withLines([...overridden, ...told], text));
  return { problems: sortByLine([...problems, ...withLines(found, text)]), warnings };
}

async function checkFiles(
  right: ValidSubset,
  input: Readonly<Record<string, unknown>>,
  path: string,
  around: FileContext,
): Promise<CheckedReferences> {
  switch (around.kind) {
    case 'gateway': {
      const named = await checkReferences(right, async (reference) => checkHere(reference, around.isRoots));
      const serial = await checkSerialNumber(right, around.findSerialNumber);
      const unfit = [...(await slotFindings(right)), ...(await portFindings(input))];
      const doubtful = [...named.doubtful, ...serial.doubtful, ...(await openSecrets(right, path))];
      if (around.isRoots === true)
        return { wrong: [...named.wrong, ...unfit], doubtful: [...doubtful, ...serial.wrong] };
      return { wrong: [...named.wrong, ...serial.wrong, ...unfit], doubtful };
    }
    case 'image':
      return findInImage(right, around.root);
    case 'none':
      return { wrong: [], doubtful: [] };
  }
}

/** Checks that there is a serial number, without which nothing of the agent works, not even its status. */
async function checkSerialNumber(
  { tables: { device }, placeOf }: ValidSubset,
  find: FindSerialNumber | undefined,
): Promise<CheckedReferences> {
  const said = ['serial_number', 'serial_number_file'] as const;
  const isSaid = said.some((key) => device?.[key] !== undefined || placeOf(['device', key]) === undefined);
  if (find === undefined || isSaid) return { wrong: [], doubtful: [] };
  try {
    const nothing = { serialNumber: undefined, serialNumberFile: undefined };
    const doubt = serialNumberDoubt(await find(nothing, AbortSignal.timeout(LOOK_FOR_SERIAL_MS)));
    const message = `device.serial_number: what the hardware tells, ${doubt}`;
    return { wrong: [], doubtful: doubt === undefined ? [] : [{ path: ['device'], message }] };
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    const found = { path: ['device'], message: `device.serial_number: ${error.message}; ${error.advice}` };
    return error.remedy === 'retry' ? { wrong: [], doubtful: [found] } : { wrong: [found], doubtful: [] };
  }
}

/** Directories that the unit of the daemon does not see (ProtectHome=yes), though this command does. */
const HIDDEN = /^\/(?:home|root|run\/user)\//;

function hiddenFiles({ tables, placeOf }: ValidSubset): readonly Finding[] {
  return referencesOf(tables).flatMap(({ path: at, name }) => {
    const path = placeOf(at);
    const why = hiddenReason(name);
    return path === undefined || why === undefined ? [] : [findingAt(path, `: ${why}`)];
  });
}

/** Returns why the daemon does not see this file, or undefined if it does. */
export function hiddenReason(file: string): string | undefined {
  if (!HIDDEN.test(file)) return undefined;
  const advice = 'move it, or set ProtectHome=read-only in a drop-in: systemctl edit thing-agent';
  return `the unit thing-agent does not see ${file}: ${advice}`;
}

function suspiciousSerialNumber({ tables: { device }, placeOf }: ValidSubset): readonly Finding[] {
  const path = placeOf(['device', 'serial_number']);
  const doubt = device?.serial_number === undefined ? undefined : serialNumberDoubt(device.serial_number.trim());
  return path === undefined || doubt === undefined ? [] : [findingAt(path, `: ${doubt}`)];
}

async function scheduleFindings({ tables: { update }, placeOf }: ValidSubset): Promise<readonly Finding[]> {
  const { isCronExpression } = await import('../../system/time/cron.ts');
  const path = placeOf(['update', 'schedule']);
  if (path === undefined || update === undefined || isCronExpression(update.schedule)) return [];
  const found = describeValue(update.schedule);
  return [findingAt(path, `: expected a cron expression such as "*/15 * * * *", found ${found}`)];
}

async function checkHere(reference: Reference, isRoots = false): ReturnType<CheckReference> {
  const { name, need } = reference;
  if (need === 'user') {
    const reason = whyCannotRunAs(name) ?? (await missingUserReason(name));
    return reason === undefined ? undefined : { why: `${name}: ${reason}`, isDoubtful: false };
  }
  const why = await examine(name, need);
  if (why === undefined) return undefined;
  if (isRoots && permissionProblems.has(why))
    return { why: `${name} ${why} by this user; perhaps by root: sudo agent config check`, isDoubtful: true };
  return { why: `${name} ${why}`, isDoubtful: why === MISSING && mayAppearLater(need) };
}

async function openSecrets({ tables, placeOf }: ValidSubset, config: string): Promise<readonly Finding[]> {
  return (await findExposedSecrets(tables, config)).filter(({ path }) => placeOf(path) !== undefined);
}

/** Refuses two slots that are the same device under different names: installing would overwrite the running system. */
async function slotFindings({ tables, placeOf }: ValidSubset): Promise<readonly Finding[]> {
  const found: Finding[] = [];
  for (const [name, target] of Object.entries(tables.targets ?? {})) {
    const path = placeOf(['targets', name, 'slots']);
    if (target.kind !== 'slots' || path === undefined || target.slots.A === target.slots.B) continue;
    const { A, B } = target.slots;
    if (!(await isSameDevice(A, B))) continue;
    found.push(findingAt(path, `: A and B are the same: ${A} and ${B} lead to one place`));
  }
  return found;
}

/** Refuses what may not share a port, if its ports are one device under different names. */
async function portFindings(input: Readonly<Record<string, unknown>>): Promise<readonly Finding[]> {
  const users = portUsers(input);
  const devices = new Map<string, string | undefined>();
  for (const { settings } of users) devices.set(settings.port, await deviceAt(settings.port));
  const isAlias = (one: string, other: string): boolean =>
    one !== other && devices.get(one) !== undefined && devices.get(one) === devices.get(other);
  return [...serialPortConflicts(users, isAlias)];
}

async function missingUserReason(user: string): Promise<string | undefined> {
  const { exitCode } = await runProgram(['id', '-u', '--', user], { timeoutMs: LOOK_MS }, AbortSignal.timeout(LOOK_MS));
  return exitCode === 0 ? undefined : 'no such user on this machine';
}

/**
 * True if something may still be missing: a program may come with an application, and a board may be unplugged. The
 * daemon waits for both.
 */
function mayAppearLater(need: RequiredFileKind): boolean {
  return programs.has(need) || need === 'device';
}

/** Returns the reason why the file cannot be used here, or undefined if it can. */
export async function examine(file: string, need: RequiredFileKind): Promise<string | undefined> {
  const exposures = isAbsolute(file) ? await exposuresOf(file, need) : [];
  if (exposures.length > 0) return `is not trusted: ${describeExposures(exposures)}`;
  if (!programs.has(need)) return findFileProblem(file, need);
  const found = await findProgram(file, process.env['PATH'] ?? '');
  return found === undefined ? MISSING : findFileProblem(found, need);
}

async function exposuresOf(file: string, need: RequiredFileKind): Promise<readonly Exposure[]> {
  if (need === 'handler' || need === 'own program') return findProgramExposures(file);
  if (need === 'written file') return findExposures(dirname(file));
  return guarded.has(need) ? findExposures(file) : [];
}
