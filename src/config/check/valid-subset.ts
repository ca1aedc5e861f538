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
  const kept = new KeptParts(input);
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const result = configSchema.safeParse(kept.root);
    const wrong = result.success ? [] : result.error.issues.flatMap(pathsOf);
    if (!kept.remove(wrong)) break;
  }
  return { tables: validTables(kept.root), placeOf: (path) => kept.placeOf(path) };
}

function pathsOf(issue: Issue): readonly Path[] {
  if (issue.code === 'unrecognized_keys') return issue.keys.map((key) => [...issue.path, key]);
  return [issue.path];
}

/** A copy of the input from which values are removed. The others keep their places in the file. */
class KeptParts {
  readonly root: Record<string, unknown>;
  /** For each list that lost items: the original indexes of the remaining items. */
  readonly #places = new WeakMap<object, number[]>();
  readonly #removed: Path[] = [];

  constructor(input: Readonly<Record<string, unknown>>) {
    this.root = structuredClone(input);
  }

  /** Removes the values at these paths. Returns whether there was anything to remove. */
  remove(paths: readonly Path[]): boolean {
    const all = new Map(
      paths.map((path) => this.#whatGoes(path)).map((path) => [JSON.stringify(path.map(String)), path]),
    );
    const goes = [...all.values()].filter((path) => path.length > 0);
    const outermost = goes.filter((path) => !goes.some((other) => other !== path && isWithin(path, other)));
    // from the last to the first, since removing an item shifts those behind it
    for (const path of outermost.toSorted(laterFirst)) this.#remove(path);
    return outermost.length > 0;
  }

  placeOf(path: Path): Path | undefined {
    const place = this.#translate(path);
    return this.#removed.some((gone) => isWithin(place, gone)) ? undefined : place;
  }

  #translate(path: Path): Path {
    let value: unknown = this.root;
    return path.map((key) => {
      const places = typeof value === 'object' && value !== null ? this.#places.get(value) : undefined;
      value = childOf(value, key);
      return places?.[Number(key)] ?? key;
    });
  }

  /** The path of the value, or of the table that cannot exist without it; empty: nothing of it exists. */
  #whatGoes(path: Path): Path {
    const [last, above] = [path.at(-1), path.slice(0, -1)];
    if (last === undefined) return path;
    const isThere = childOf(above.reduce(childOf, this.root), last) !== undefined;
    return isThere && !deciding.has(last) ? path : this.#whatGoes(above);
  }

  #remove(path: Path): void {
    const [last = '', above] = [path.at(-1), path.slice(0, -1)];
    const parent = above.reduce(childOf, this.root);
    this.#removed.push(this.#translate(path));
    if (!Array.isArray(parent)) {
      if (typeof parent === 'object' && parent !== null) Reflect.deleteProperty(parent, last);
      return;
    }
    const places = this.#places.get(parent) ?? parent.map((_item, index) => index);
    parent.splice(Number(last), 1);
    this.#places.set(
      parent,
      places.filter((_place, index) => index !== Number(last)),
    );
  }
}

function isWithin(path: Path, outer: Path): boolean {
  return outer.every((key, index) => String(key) === String(path[index]));
}

function laterFirst(a: Path, b: Path): number {
  const at = a.findIndex((key, index) => key !== b[index]);
  const [one, other] = [a[at], b[at]];
  return typeof one === 'number' && typeof other === 'number' ? other - one : 0;
}

function childOf(value: unknown, key: PropertyKey): unknown {
  if (typeof value !== 'object' || value === null) return undefined;
  return Object.getOwnPropertyDescriptor(value, key)?.value;
}
