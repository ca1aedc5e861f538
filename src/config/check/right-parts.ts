import type * as z from 'zod';

import { configSchema, type SoundTables, soundTables } from '../schema/schema.ts';

type Path = readonly PropertyKey[];
type Issue = z.core.$ZodIssue;

/** What of a configuration is right, however much of it is wrong. */
export interface RightParts {
  readonly tables: SoundTables;
  /** Where something of `tables` stands in the file; undefined: what is written there is wrong, and a default took its place. */
  readonly placeOf: (path: Path) => Path | undefined;
}

/** A value that is wrong may leave a table without what it needs, and that table the one around it, and so on. */
const MAX_ROUNDS = 64;
/** Without it, its neighbours would mean something else. */
const deciding: ReadonlySet<PropertyKey> = new Set(['user', 'kind']);

/** Leaves out what is wrong, key by key. */
export function rightParts(input: Readonly<Record<string, unknown>>): RightParts {
  const kept = new KeptParts(input);
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const result = configSchema.safeParse(kept.root);
    const wrong = result.success ? [] : result.error.issues.flatMap(pathsOf);
    if (!kept.remove(wrong)) break;
  }
  return { tables: soundTables(kept.root), placeOf: (path) => kept.placeOf(path) };
}

function pathsOf(issue: Issue): readonly Path[] {
  if (issue.code === 'unrecognized_keys') return issue.keys.map((key) => [...issue.path, key]);
  return [issue.path];
}

/** A copy of the input from which values are removed; the others keep their place. */
class KeptParts {
  readonly root: Record<string, unknown>;
  /** Of each list that lost items: the places of those that are left. */
  readonly #places = new WeakMap<object, number[]>();
  readonly #removed: Path[] = [];

  constructor(input: Readonly<Record<string, unknown>>) {
    this.root = structuredClone(input);
  }

  /** Returns whether there was something to remove. */
  remove(paths: readonly Path[]): boolean {
    const all = new Map(
      paths.map((path) => this.#whatGoes(path)).map((path) => [JSON.stringify(path.map(String)), path]),
    );
    const goes = [...all.values()].filter((path) => path.length > 0);
    const outermost = goes.filter((path) => !goes.some((other) => other !== path && isWithin(path, other)));
    // Several of one list count from where they stood together, so the last comes first.
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

  /** The value, or the table that cannot be without it; empty: nothing of it is there. */
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
