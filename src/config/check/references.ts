import { settingsIn } from '../../system/settings/settings.ts';
import { referenceOf } from '../../system/settings/values.ts';
import type { RequiredFileKind } from '../../system/settings/values.ts';
import type { Finding } from '../cross-check.ts';
import { findingAt } from '../file/problems.ts';
import { configSchema } from '../schema/schema.ts';
import type { ValidTables } from '../schema/schema.ts';
import type { ValidSubset } from './valid-subset.ts';

/** A file, or a user of this machine. */
export interface Reference {
  readonly path: readonly PropertyKey[];
  readonly name: string;
  readonly need: RequiredFileKind | 'user';
}

/** All files and users that the correct part of the tables names. */
export function referencesOf(tables: ValidTables): readonly Reference[] {
  return [...settingsIn(configSchema, tables)].flatMap(({ schema, value, path, table }) => {
    const need = referenceOf(schema);
    if (need === undefined) return [];
    if (typeof value === 'string') return [{ path, name: value, need }];
    if (!Array.isArray(value)) return [];
    const isOwn = !('user' in table) || table.user === undefined;
    return [{ path, name: String(value[0]), need: isOwn ? 'own program' : need }];
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
