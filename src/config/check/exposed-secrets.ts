import { valueOrUndefined } from '../../system/errors.ts';
import { quoted, mayBeReadByAll } from '../../system/files/protected-file.ts';
import type { Finding } from '../cross-check.ts';
import { findingAt } from '../file/problems.ts';
import type { ValidTables } from '../schema/schema.ts';
import { secrets } from './referenced-file.ts';
import { referencesOf } from './references.ts';

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
  for (const { path, name, need } of referencesOf(tables)) {
    if (!secrets.has(need) || !(await isExposed(name))) continue;
    const why = `: ${name} is readable by all users of this machine; to fix it: chmod 600 ${quoted(name)}`;
    found.push(findingAt(path, why));
  }
  return found;
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
