import { systemErrorCode } from '../../system/errors.ts';
import { quoted, mayBeReadByAll } from '../../system/files/guarded-file.ts';
import type { Finding } from '../cross-check.ts';
import { keyPath } from '../file/problems.ts';
import type { SoundTables } from '../schema/schema.ts';
import { referencesOf } from './references.ts';

/** Of the files with secrets that the tables name: those that everybody on this machine may read. */
export async function findOpenSecrets(tables: SoundTables): Promise<readonly Finding[]> {
  const found: Finding[] = [];
  for (const { path, file, need } of referencesOf(tables)) {
    if (need !== 'secret' || !(await isOpen(file))) continue;
    const message = `${keyPath(path)}: ${file} may be read by everybody on this machine; mend it with: chmod 600 ${quoted(file)}`;
    found.push({ path, message });
  }
  return found;
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
