import { stat } from 'node:fs/promises';
import { isAbsolute } from 'node:path';

import { serialNumberDoubt } from '../../system/device/serial-number.ts';
import type { findSerialNumber } from '../../system/device/serial-number.ts';
import { AgentError, systemErrorCode } from '../../system/errors.ts';
import { findProgram, findProgramExposures } from '../../system/files/guarded-program.ts';
import { describeExposures, findExposures } from '../../system/files/protected-file.ts';
import type { Exposure } from '../../system/files/protected-file.ts';
import { runProgram } from '../../system/processes/child-process.ts';
import type { Environment } from '../../system/processes/environment.ts';
import { whyCannotRunAs } from '../../system/processes/program-rights.ts';
import type { Finding } from '../cross-check.ts';
import { findWarnings } from '../cross-check/warnings.ts';
import type { ConfigProblem } from '../errors.ts';
import { describeValue, keyPath } from '../file/problems.ts';
import { applyEnvironment, examineConfig, sortByLine, readConfigText, withLines } from '../read-config.ts';
import { findInImage } from './check-image.ts';
import { findExposedSecrets } from './exposed-secrets.ts';
import { permissionProblems, findFileProblem, guarded, MISSING, programs } from './referenced-file.ts';
import { referencesOf, referencedUsers } from './references.ts';
import type { RequiredFileKind, Reference } from './references.ts';
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
  const { wrong, doubtful } = await lookAt(right, path, around);
  const found = [...(await scheduleFindings(right)), ...wrong];
  const told = [...doubtful, ...suspiciousSerialNumber(right), ...hiddenFiles(right)];
  const overridden =
    file === undefined ? [] : [...applyEnvironment(file, environment).overridden, ...findWarnings(file)];
  const warnings = sortByLine(withLines([...overridden, ...told], text));
  return { problems: sortByLine([...problems, ...withLines(found, text)]), warnings };
}

interface Looked {
  readonly wrong: readonly Finding[];
  readonly doubtful: readonly Finding[];
}

async function lookAt(right: ValidSubset, path: string, around: FileContext): Promise<Looked> {
  switch (around.kind) {
    case 'gateway': {
      const named = await lookAtReferences(right, around.isRoots);
      const serial = await lookForSerialNumber(right, around.findSerialNumber);
      const unfit = [...(await slotFindings(right)), ...(await userFindings(right))];
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
async function lookForSerialNumber(
  { tables: { device }, placeOf }: ValidSubset,
  find: FindSerialNumber | undefined,
): Promise<Looked> {
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
  return referencesOf(tables).flatMap(({ path: at, file }) => {
    const path = placeOf(at);
    if (path === undefined || !HIDDEN.test(file)) return [];
    const advice = 'move it, or set ProtectHome=read-only in a drop-in: systemctl edit thing-agent';
    return [{ path, message: `${keyPath(path)}: the unit thing-agent does not see ${file}: ${advice}` }];
  });
}

function suspiciousSerialNumber({ tables: { device }, placeOf }: ValidSubset): readonly Finding[] {
  const path = placeOf(['device', 'serial_number']);
  const doubt = device?.serial_number === undefined ? undefined : serialNumberDoubt(device.serial_number.trim());
  return path === undefined || doubt === undefined ? [] : [{ path, message: `device.serial_number: ${doubt}` }];
}

async function scheduleFindings({ tables: { update }, placeOf }: ValidSubset): Promise<readonly Finding[]> {
  const { isCronExpression } = await import('../../system/time/cron.ts');
  const path = placeOf(['update', 'schedule']);
  if (path === undefined || update === undefined || isCronExpression(update.schedule)) return [];
  const message = `update.schedule: expected a cron expression such as "*/15 * * * *", found ${describeValue(update.schedule)}`;
  return [{ path, message }];
}

async function lookAtReferences({ tables, placeOf }: ValidSubset, isRoots = false): Promise<Looked> {
  const wrong: Finding[] = [];
  const doubtful: Finding[] = [];
  for (const reference of referencesOf(tables)) {
    const path = placeOf(reference.path);
    const why = path === undefined ? undefined : await examine(reference);
    if (path === undefined || why === undefined) continue;
    const isOurs = isRoots && permissionProblems.has(why);
    const isDoubt = isOurs || (why === MISSING && mayAppearLater(reference.need));
    const said = isOurs ? `${why} by this user; perhaps by root: sudo agent config check` : why;
    (isDoubt ? doubtful : wrong).push({ path, message: `${keyPath(path)}: ${reference.file} ${said}` });
  }
  return { wrong, doubtful };
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
    const [identity, other] = await Promise.all([identityAt(target.slots.A), identityAt(target.slots.B)]);
    if (identity === undefined || identity !== other) continue;
    const message = `${keyPath(path)}: A and B are the same: ${target.slots.A} and ${target.slots.B} lead to one place`;
    found.push({ path, message });
  }
  return found;
}

/** Identifies the device or file at this path. Returns undefined if there is none. */
async function identityAt(path: string): Promise<string | undefined> {
  try {
    const facts = await stat(path, { bigint: true });
    return facts.isBlockDevice() ? `device ${facts.rdev}` : `file ${facts.dev} ${facts.ino}`;
  } catch (error) {
    if (systemErrorCode(error) !== undefined) return undefined;
    throw error;
  }
}

async function userFindings({ tables, placeOf }: ValidSubset): Promise<readonly Finding[]> {
  const found: Finding[] = [];
  for (const { path: at, user } of referencedUsers(tables)) {
    const path = placeOf(at);
    const why = path === undefined ? undefined : (whyCannotRunAs(user) ?? (await missingUserReason(user)));
    if (path !== undefined && why !== undefined) found.push({ path, message: `${keyPath(path)}: ${user}: ${why}` });
  }
  return found;
}

async function missingUserReason(user: string): Promise<string | undefined> {
  const { exitCode } = await runProgram(['id', '-u', '--', user], { timeoutMs: LOOK_MS }, AbortSignal.timeout(LOOK_MS));
  return exitCode === 0 ? undefined : 'there is no such user on this machine';
}

/**
 * True if something may still be missing: a program may come with an application, and a board may be unplugged. The
 * daemon waits for both.
 */
function mayAppearLater(need: RequiredFileKind): boolean {
  return programs.has(need) || need === 'device';
}

/** Returns the reason why the file cannot be used here, or undefined if it can. */
export async function examine({ file, need }: Reference): Promise<string | undefined> {
  const exposures = isAbsolute(file) ? await exposuresOf(file, need) : [];
  if (exposures.length > 0) return `is not trusted: ${describeExposures(exposures)}`;
  if (!programs.has(need)) return findFileProblem(file, need);
  const found = await findProgram(file, process.env['PATH'] ?? '');
  return found === undefined ? MISSING : findFileProblem(found, need);
}

async function exposuresOf(file: string, need: RequiredFileKind): Promise<readonly Exposure[]> {
  if (need === 'handler' || need === 'own program') return findProgramExposures(file);
  return guarded.has(need) ? findExposures(file) : [];
}
