import * as z from 'zod';

import type { DailyWindow } from '../time/daily-window.ts';
import { unitOf } from './values.ts';
import type { DurationText, RateText, SizeText, UtcText, WindowText } from './values.ts';

/**
 * A table of the file as the program uses it: `first_byte = "1m"` becomes `firstByteMs: 60_000`, and optional members
 * are always there, perhaps as undefined.
 */
export type Settings<T> = T extends DurationText | SizeText | RateText | UtcText
  ? number
  : T extends WindowText
    ? DailyWindow
    : T extends readonly unknown[]
      ? { readonly [I in keyof T]: Settings<T[I]> }
      : T extends object
        ? { readonly [K in keyof T as K extends string ? `${Camel<K>}${Suffix<T[K]>}` : K]-?: Settings<T[K]> }
        : T;

/** The settings of a schema. */
export type SettingsOf<S extends z.ZodType> = Settings<z.output<S>>;

type Camel<K extends string> = K extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<Camel<Tail>>}` : K;

type Suffix<T> =
  NonNullable<T> extends DurationText | UtcText
    ? 'Ms'
    : NonNullable<T> extends SizeText
      ? 'Bytes'
      : NonNullable<T> extends RateText
        ? 'BytesPerSecond'
        : '';

/** Turns what the schema accepted into settings. The overload is for the compiler, which cannot follow a schema. */
export function settingsOf<S extends z.ZodType>(schema: S, value: z.output<S>): SettingsOf<S>;
export function settingsOf(schema: unknown, value: unknown): unknown {
  return read(schema, value);
}

function read(schema: unknown, value: unknown): unknown {
  const type = unwrapSchema(schema);
  if (typeof value === 'string') return type instanceof z.ZodType ? (unitOf(type)?.read(value) ?? value) : value;
  if (!isTable(value)) return value;
  if (type instanceof z.ZodUnion) return read(optionFor(type, value), value);
  if (type instanceof z.ZodArray && Array.isArray(value)) return value.map((item: unknown) => read(type.element, item));
  if (!(type instanceof z.ZodObject)) return value;
  const written: ReadonlyMap<string, unknown> = new Map(Object.entries(value));
  const rows = Object.entries(type.shape).map(([key, below]) => [nameOf(key, below), read(below, written.get(key))]);
  return Object.fromEntries(rows);
}

/** For what is parsed once: zod would write and compile a function for each table, which costs more than it saves. */
export const parsedOnce = { jitless: true } as const;

function isTable(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

/** Returns the option of a union that accepted this value: its `kind` shows it, if the options have one. */
function optionFor(union: z.ZodUnion, value: unknown): unknown {
  return union.options.find((option) => {
    const kind: unknown = option instanceof z.ZodObject ? option.shape['kind'] : undefined;
    if (kind instanceof z.ZodLiteral)
      return isTable(value) && 'kind' in value && [...kind.values].some((name) => name === value.kind);
    return option instanceof z.ZodType && option.safeParse(value, parsedOnce).success;
  });
}

/** A value of the file, its schema, its path, and the table that contains it. */
interface Setting {
  readonly schema: z.ZodType;
  readonly value: unknown;
  readonly path: readonly PropertyKey[];
  readonly table: object;
}

/** Returns the wanted values that the schema accepted, the tables and lists among them. An unwanted table is skipped. */
export function* settingsIn(
  schema: unknown,
  value: unknown,
  isWanted: (value: unknown) => boolean,
  { path, table }: Pick<Setting, 'path' | 'table'> = { path: [], table: {} },
): Generator<Setting> {
  if (value === undefined || !isWanted(value)) return;
  const type = unwrapSchema(schema);
  if (!(type instanceof z.ZodType)) return;
  yield { schema: type, value, path, table };
  if (type instanceof z.ZodUnion) yield* settingsIn(optionFor(type, value), value, isWanted, { path, table });
  else if (isTable(value)) {
    const isList = Array.isArray(value);
    for (const [key, below] of Object.entries(value)) {
      const at = { path: [...path, isList ? Number(key) : key], table: isList ? table : value };
      yield* settingsIn(schemaBelow(type, key), below, isWanted, at);
    }
  }
}

function schemaBelow(type: z.ZodType, key: string): unknown {
  if (type instanceof z.ZodObject) return type.shape[key];
  if (type instanceof z.ZodArray) return type.element;
  return type instanceof z.ZodRecord ? type.valueType : undefined;
}

function nameOf(key: string, schema: unknown): string {
  const type = unwrapSchema(schema);
  const name = key.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase());
  return `${name}${type instanceof z.ZodType ? (unitOf(type)?.suffix ?? '') : ''}`;
}

/** The schema without the wrappers that make it optional. */
export function unwrapSchema(schema: unknown): unknown {
  let type = schema;
  while (type instanceof z.ZodOptional || type instanceof z.ZodDefault || type instanceof z.ZodPrefault) {
    type = type.unwrap();
  }
  return type;
}
