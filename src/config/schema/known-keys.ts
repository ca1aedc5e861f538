import * as z from 'zod';

import { unwrapSchema } from '../../system/settings/settings.ts';

/** Returns the keys that the schema knows in the table at `path` of `input`, restricted to its `kind` if it has one. */
export function knownKeys(schema: unknown, path: readonly PropertyKey[], input: unknown): readonly string[] {
  return tablesAt(schema, path, input).flatMap((table) => Object.keys(table.shape));
}

/** Returns the tables in which the schema knows this key, as written in the file: `[update]`, `[targets.NAME]`. */
export function tablesWithKey(schema: unknown, key: string): readonly string[] {
  const found = new Set<string>();
  const visit = (inner: unknown, path: readonly string[]): void => {
    const type = unwrapSchema(inner);
    if (type instanceof z.ZodObject) {
      const shape: Readonly<Record<string, unknown>> = type.shape;
      if (key in shape && path.length > 0) found.add(`[${path.join('.')}]`);
      for (const [name, below] of Object.entries(shape)) visit(below, [...path, name]);
    }
    if (type instanceof z.ZodRecord) visit(type.valueType, [...path, 'NAME']);
    if (type instanceof z.ZodUnion) for (const option of type.options) visit(option, path);
  };
  visit(schema, []);
  return [...found];
}

function tablesAt(schema: unknown, path: readonly PropertyKey[], input: unknown): readonly z.ZodObject[] {
  const type = unwrapSchema(schema);
  if (type instanceof z.ZodUnion) {
    return type.options.filter((option) => mayBe(option, input)).flatMap((option) => tablesAt(option, path, input));
  }
  const [key, ...rest] = path;
  if (key === undefined) return type instanceof z.ZodObject ? [type] : [];
  const below = valueAt(input, [key]);
  if (type instanceof z.ZodObject) return tablesAt(type.shape[String(key)], rest, below);
  if (type instanceof z.ZodRecord) return tablesAt(type.valueType, rest, below);
  if (type instanceof z.ZodArray) return tablesAt(type.element, rest, below);
  return [];
}

/** True if the input may be this option of a union, according to its `kind`. */
function mayBe(option: unknown, input: unknown): boolean {
  const kind: unknown = option instanceof z.ZodObject ? option.shape['kind'] : undefined;
  return !(kind instanceof z.ZodLiteral) || kind.safeParse(valueAt(input, ['kind'])).success;
}

/** Returns the value of the input at this path, or undefined. */
export function valueAt(input: unknown, path: readonly PropertyKey[]): unknown {
  let value = input;
  for (const key of path) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = Object.getOwnPropertyDescriptor(value, key)?.value;
  }
  return value;
}
