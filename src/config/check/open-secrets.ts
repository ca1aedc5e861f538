import { systemErrorCode } from '../../system/errors.ts';
import { quoted, mayBeReadByAll } from '../../system/files/guarded-file.ts';
import type { Finding } from '../cross-check.ts';
import { keyPath } from '../file/problems.ts';
import type { SoundTables } from '../schema/schema.ts';
import { referencesOf } from './references.ts';

/** Of the files with secrets that the tables name, and the file of the tables itself: those that everybody on this machine may read. */
export async function findOpenSecrets(tables: SoundTables, config: string): Promise<readonly Finding[]> {
  const found: Finding[] = [];
  const passwords = passwordsIn(tables, []);
  if (passwords.length > 0 && (await isOpen(config))) {
    const why = `has a password, and ${config} may be read by everybody on this machine; mend it with: chmod 600 ${quoted(config)}`;
    found.push(...passwords.map((path) => ({ path, message: `${keyPath(path)}: ${why}` })));
  }
  for (const { path, file, need } of referencesOf(tables)) {
    if (need !== 'secret' || !(await isOpen(file))) continue;
    const message = `${keyPath(path)}: ${file} may be read by everybody on this machine; mend it with: chmod 600 ${quoted(file)}`;
    found.push({ path, message });
  }
  return found;
}

const WITH_PASSWORD = /^[a-z][a-z0-9+.-]*:\/\/[^/@\s]*:[^/@\s]+@/i;

/** Where in the tables an address has one. */
function passwordsIn(value: unknown, path: readonly PropertyKey[]): readonly (readonly PropertyKey[])[] {
  if (typeof value === 'string') return WITH_PASSWORD.test(value) ? [path] : [];
  if (typeof value !== 'object' || value === null) return [];
  if (Array.isArray(value)) return value.flatMap((member, index) => passwordsIn(member, [...path, index]));
  return Object.entries(value).flatMap(([key, member]) => passwordsIn(member, [...path, key]));
}

/** What is missing, or may not be looked at, is told by who reads it. */
async function isOpen(file: string): Promise<boolean> {
  try {
    return await mayBeReadByAll(file);
  } catch (error) {
    if (systemErrorCode(error) === undefined) throw error;
    return false;
  }
}
