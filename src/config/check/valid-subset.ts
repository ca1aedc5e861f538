import type * as z from 'zod';

import { configSchema, type ValidTables, validTables } from '../schema/schema.ts';

type Path = readonly PropertyKey[];
type Issue = z.core.$ZodIssue;

/** The correct part of a configuration, however much of it is wrong. */
export interface ValidSubset {
  readonly tables: ValidTables;
  /**
   * Returns the path of a value of `tables` in the file, or undefined if the file has an invalid value there, which a
   * default replaced.
   */
  readonly placeOf: (path: Path) => Path | undefined;
}

/** Removing a wrong value may leave its table without something that it needs, then the table around it, and so on. */
const MAX_ROUNDS = 64;
/** Without these keys, their neighbours would mean something else. */
const deciding: ReadonlySet<PropertyKey> = new Set(['user', 'kind']);

/** Removes what is wrong, key by key. */
export function validSubset(input: Readonly<Record<string, unknown>>): ValidSubset {
  const gone = new Set<string>();
  let kept = new KeptParts(input, gone);
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const { root } = kept;
    const issues = configSchema.safeParse(root).error?.issues ?? [];
    const wrong = issues.flatMap(pathsOf).map((path) => removable(root, path));
    const places = wrong.filter((path) => path.length > 0).map((path) => kept.translate(path));
    if (places.length === 0) break;
    for (const place of places) gone.add(keyOf(place));
    kept = new KeptParts(input, gone);
  }
  const placeOf = (path: Path): Path | undefined => {
    const place = kept.translate(path);
    return place.some((_, index) => gone.has(keyOf(place.slice(0, index + 1)))) ? undefined : place;
  };
  return { tables: validTables(kept.root), placeOf };
}

function keyOf(path: Path): string {
  return JSON.stringify(path.map(String));
}

function pathsOf(issue: Issue): readonly Path[] {
  if (issue.code === 'unrecognized_keys') return issue.keys.map((key) => [...issue.path, key]);
  return [issue.path];
}

/** Returns the path of the value, or of the table that cannot exist without it; empty: nothing of it exists. */
function removable(root: unknown, path: Path): Path {
  const [last, above] = [path.at(-1), path.slice(0, -1)];
  if (last === undefined) return path;
  const isThere = childOf(above.reduce(childOf, root), last) !== undefined;
  return isThere && !deciding.has(last) ? path : removable(root, above);
}

/** A copy of the input without the values at these places. The others keep their places in the file. */
class KeptParts {
  readonly root: Readonly<Record<string, unknown>>;
  /** For each list: the original indexes of its items. */
  readonly #places = new WeakMap<object, readonly number[]>();

  constructor(input: Readonly<Record<string, unknown>>, gone: ReadonlySet<string>) {
    const copy = (value: unknown, path: Path): unknown => {
      if (typeof value !== 'object' || value === null || value instanceof Date) return value;
      const members = membersOf(value, path);
      if (!Array.isArray(value)) return Object.fromEntries(members);
      const list = members.map(([, member]) => member);
      this.#places.set(
        list,
        members.map(([key]) => Number(key)),
      );
      return list;
    };
    const membersOf = (value: object, path: Path): [string, unknown][] =>
      Object.entries(value)
        .filter(([key]) => !gone.has(keyOf([...path, key])))
        .map(([key, below]) => [key, copy(below, [...path, key])]);
    this.root = Object.fromEntries(membersOf(input, []));
  }

  /** Returns the place in the input of a value in the copy. */
  translate(path: Path): Path {
    let value: unknown = this.root;
    return path.map((key) => {
      const places = typeof value === 'object' && value !== null ? this.#places.get(value) : undefined;
      value = childOf(value, key);
      return places?.[Number(key)] ?? key;
    });
  }
}

function childOf(value: unknown, key: PropertyKey): unknown {
  if (typeof value !== 'object' || value === null) return undefined;
  return Object.getOwnPropertyDescriptor(value, key)?.value;
}
