import { constants, type Stats } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { isAbsolute } from 'node:path';

import { describeError, systemErrorCode } from '../system/errors.ts';
import { describeExposures, findExposures } from '../system/files/guarded-file.ts';
import type { Exposure } from '../system/files/guarded-file.ts';
import { findProgramExposures } from '../system/files/guarded-program.ts';
import { MCUBOOT_RSA_MINIMUM_BITS, PublicKeyError, readPublicKey } from '../system/files/public-key.ts';
import { runProgram } from '../system/processes/child-process.ts';
import type { Environment } from '../system/processes/environment.ts';
import { whyNotAs } from '../system/processes/program-rights.ts';
import { type Finding, findWarnings } from './cross-check.ts';
import type { ConfigProblem } from './errors.ts';
import { describeValue, keyPath } from './file/problems.ts';
import { applyEnvironment, examineConfig, inOrder, readConfigText, withLines } from './read-config.ts';
import { referencesOf, usersOf } from './references.ts';
import type { Need, Reference } from './references.ts';
import { rightParts } from './right-parts.ts';
import type { RightParts } from './right-parts.ts';

const LOOK_MS = 10_000;

export interface ConfigCheck {
  /** In the order of the file. */
  readonly problems: readonly ConfigProblem[];
  readonly warnings: readonly ConfigProblem[];
}

/**
 * Goes further than loading: looks at what the configuration names, too, and tells everything at once. Throws ConfigError
 * only where there is no file, or no TOML in it.
 */
export async function checkConfig(path: string, environment: Environment): Promise<ConfigCheck> {
  const text = await readConfigText(path);
  const { file, input, problems } = examineConfig(path, text);
  const right = rightParts(input);
  const found = [
    ...(await scheduleFindings(right)),
    ...(await referenceFindings(right)),
    ...(await slotFindings(right)),
    ...(await userFindings(right)),
  ];
  const warnings = file === undefined ? [] : [...applyEnvironment(file, environment).overruled, ...findWarnings(file)];
  return { problems: inOrder([...problems, ...withLines(found, text)]), warnings: withLines(warnings, text) };
}

async function scheduleFindings({ tables: { update }, placeOf }: RightParts): Promise<readonly Finding[]> {
  const { isCronExpression } = await import('../system/time/cron.ts');
  const path = placeOf(['update', 'schedule']);
  if (path === undefined || update === undefined || isCronExpression(update.schedule)) return [];
  const message = `update.schedule: expected a cron expression such as "*/15 * * * *", found ${describeValue(update.schedule)}`;
  return [{ path, message }];
}

async function referenceFindings({ tables, placeOf }: RightParts): Promise<readonly Finding[]> {
  const found: Finding[] = [];
  for (const reference of referencesOf(tables)) {
    const path = placeOf(reference.path);
    const why = path === undefined ? undefined : await examine(reference);
    if (path !== undefined && why !== undefined)
      found.push({ path, message: `${keyPath(path)}: ${reference.file} ${why}` });
  }
  return found;
}

/** Whatever they are called: installing would overwrite what runs. */
async function slotFindings({ tables, placeOf }: RightParts): Promise<readonly Finding[]> {
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

/** Undefined: nothing is there. */
async function identityAt(path: string): Promise<string | undefined> {
  try {
    const facts = await stat(path, { bigint: true });
    return facts.isBlockDevice() ? `device ${facts.rdev}` : `file ${facts.dev} ${facts.ino}`;
  } catch (error) {
    if (systemErrorCode(error) !== undefined) return undefined;
    throw error;
  }
}

async function userFindings({ tables, placeOf }: RightParts): Promise<readonly Finding[]> {
  const found: Finding[] = [];
  for (const { path: at, user } of usersOf(tables)) {
    const path = placeOf(at);
    const why = path === undefined ? undefined : (whyNotAs(user) ?? (await whyNobody(user)));
    if (path !== undefined && why !== undefined) found.push({ path, message: `${keyPath(path)}: ${user}: ${why}` });
  }
  return found;
}

async function whyNobody(user: string): Promise<string | undefined> {
  const { exitCode } = await runProgram(['id', '-u', '--', user], { timeoutMs: LOOK_MS }, AbortSignal.timeout(LOOK_MS));
  return exitCode === 0 ? undefined : 'there is no such user on this machine';
}

/** Why the file cannot be used; undefined: it can. */
async function examine({ file, need }: Reference): Promise<string | undefined> {
  const exposures = isAbsolute(file) ? await exposuresOf(file, need) : [];
  if (exposures.length > 0) return `is not trusted: ${describeExposures(exposures)}`;
  if (need === 'own program') return undefined;
  try {
    const wrongKind = describeWrongKind(await stat(file), need);
    if (wrongKind === undefined) await open(file, need);
    return wrongKind;
  } catch (error) {
    return describeFailure(error, need);
  }
}

async function exposuresOf(file: string, need: Need): Promise<readonly Exposure[]> {
  if (need === 'handler' || need === 'own program') return findProgramExposures(file);
  return guarded.has(need) ? findExposures(file) : [];
}

async function open(file: string, need: Need): Promise<void> {
  if (need === 'release key') await readPublicKey(file);
  else if (need === 'mcuboot key') await readPublicKey(file, MCUBOOT_RSA_MINIMUM_BITS);
  else if (need !== 'slot' && need !== 'device')
    await access(file, need === 'handler' ? constants.X_OK : constants.R_OK);
}

function describeFailure(error: unknown, need: Need): string {
  if (error instanceof PublicKeyError) return `is refused: ${error.message}`;
  const code = systemErrorCode(error);
  if (code === 'ENOENT' || code === 'ENOTDIR') return 'does not exist';
  if (code === 'EACCES') return need === 'handler' ? 'may not be executed' : 'may not be read';
  return `cannot be used: ${describeError(error)}`;
}

/** Others may not write there. */
const guarded: ReadonlySet<Need> = new Set(['secret or key', 'release key', 'mcuboot key']);

function describeWrongKind(facts: Stats, need: Need): string | undefined {
  if (need === 'device') return facts.isCharacterDevice() ? undefined : 'is not a character device';
  if (need === 'slot') return facts.isFile() || facts.isBlockDevice() ? undefined : 'is no block device and no file';
  return facts.isFile() ? undefined : 'is not a file';
}
