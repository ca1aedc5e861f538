import { valueOrUndefined } from '../../system/errors.ts';
import { scriptOf } from '../../system/files/guarded-program.ts';
import { mayBeReadByAll, quoted } from '../../system/files/protected-file.ts';
import { settingsIn } from '../../system/settings/settings.ts';
import { referenceOf } from '../../system/settings/values.ts';
import type { RequiredFileKind } from '../../system/settings/values.ts';
import type { Finding } from '../cross-check.ts';
import { findingAt } from '../file/problems.ts';
import { configSchema } from '../schema/schema.ts';
import type { ValidTables } from '../schema/schema.ts';
import { secrets } from './referenced-file.ts';
import type { ValidSubset } from './valid-subset.ts';

/** A file, or a user of this machine. */
export interface Reference {
  readonly path: readonly PropertyKey[];
  readonly name: string;
  readonly need: RequiredFileKind | 'user';
}

/** Returns the files and users that the correct part of the tables names, or those in values that `isWanted`. */
export function referencesOf(
  tables: ValidTables,
  isWanted: (value: unknown) => boolean = () => true,
): readonly Reference[] {
  return [...settingsIn(configSchema, tables, isWanted)].flatMap(({ schema, value, path, table }) => {
    const need = referenceOf(schema);
    if (need === undefined) return [];
    if (typeof value === 'string') return [{ path, name: value, need }];
    if (!Array.isArray(value)) return [];
    const isOwn = !('user' in table) || table.user === undefined;
    const script = isOwn ? scriptOf(value.map(String)) : undefined;
    const program = { path, name: String(value[0]), need: isOwn ? 'own program' : need } as const;
    return script === undefined ? [program] : [program, { path, name: script, need: 'own script' }];
  });
}

export interface CheckedReferences {
  readonly wrong: readonly Finding[];
  /** Findings that may not matter. */
  readonly doubtful: readonly Finding[];
}

/** Returns why something cannot be used, worded to follow its key. Undefined if it can. */
export type CheckReference = (
  reference: Reference,
) => Promise<{ readonly why: string; readonly isDoubtful: boolean } | undefined>;

/** Checks all files and users that the correct part of a configuration names. */
export async function checkReferences(
  { tables, placeOf }: ValidSubset,
  check: CheckReference,
): Promise<CheckedReferences> {
  const wrong: Finding[] = [];
  const doubtful: Finding[] = [];
  for (const reference of referencesOf(tables)) {
    const path = placeOf(reference.path);
    const found = path === undefined ? undefined : await check(reference);
    if (path !== undefined && found !== undefined)
      (found.isDoubtful ? doubtful : wrong).push(findingAt(path, `: ${found.why}`));
  }
  return { wrong, doubtful };
}

/**
 * Finds secrets that every user of this machine may read: in files that the tables name, and in the configuration file
 * itself.
 */
export async function findExposedSecrets(tables: ValidTables, config: string): Promise<readonly Finding[]> {
  const found: Finding[] = [];
  const passwords = passwordsIn(tables, []);
  if (passwords.length > 0 && (await isExposed(config))) {
    const why = `has a password, and ${config} is readable by all users of this machine; to fix it: chmod 600 ${quoted(config)}`;
    found.push(...passwords.map((path) => findingAt(path, `: ${why}`)));
  }
  for (const { path, name, need } of referencesOf(tables, hasPath)) {
    if (!secrets.has(need) || !(await isExposed(name))) continue;
    const why = `: ${name} is readable by all users of this machine; to fix it: chmod 600 ${quoted(name)}`;
    found.push(findingAt(path, why));
  }
  return found;
}

/** True if the value is or contains an absolute path. This runs at each start, where the schema of all values costs 1 ms. */
function hasPath(value: unknown): boolean {
  if (typeof value === 'string') return value.startsWith('/');
  return typeof value === 'object' && value !== null && Object.values(value).some(hasPath);
}

const WITH_PASSWORD = /^[a-z][a-z0-9+.-]*:\/\/[^/\s]*:[^/\s]+@/i;

/** The places in the tables where an address contains a password. */
function passwordsIn(value: unknown, path: readonly PropertyKey[]): readonly (readonly PropertyKey[])[] {
  if (typeof value === 'string') return WITH_PASSWORD.test(value) ? [path] : [];
  if (typeof value !== 'object' || value === null) return [];
  if (Array.isArray(value)) return value.flatMap((member, index) => passwordsIn(member, [...path, index]));
  return Object.entries(value).flatMap(([key, member]) => passwordsIn(member, [...path, key]));
}

/** True if all users may read the file. A missing or hidden file is reported when it is read. */
async function isExposed(file: string): Promise<boolean> {
  return (await valueOrUndefined(mayBeReadByAll(file))) ?? false;
}
