import * as z from 'zod';

import type { SettingsOf } from './settings.ts';

// Functions for lists whose members describe themselves: protocols, bootloaders, sources.

interface Named {
  readonly name: string;
}

/** The names of all members, for an enum. */
export function namesOf<T extends Named>(list: readonly T[]): readonly T['name'][] {
  return list.map(({ name }) => name);
}

/** The member with this name, which was checked with the list. */
export function withName<T extends Named>(list: readonly T[], name: T['name']): T {
  const found = list.find((one) => one.name === name);
  if (found === undefined) throw new RangeError(`${name} is not one of ${namesOf(list).join(', ')}`);
  return found;
}

interface HasSettings {
  readonly settings: z.ZodRawShape;
}

type Intersection<T> = (T extends unknown ? (one: T) => void : never) extends (all: infer All) => void ? All : never;

/** The settings of all members together; a setting of several members occurs once. The overload is for the compiler. */
export function allSettings<T extends HasSettings>(list: readonly T[]): Intersection<T['settings']>;
export function allSettings(list: readonly HasSettings[]): z.ZodRawShape {
  return Object.fromEntries(list.flatMap(({ settings }) => Object.entries(settings)));
}

/** A table of the file whose `kind` names its member. */
export type TableOfKind<Name extends string, Shape extends z.ZodRawShape> = z.ZodObject<
  { readonly kind: z.ZodLiteral<Name> } & Shape,
  z.core.$strict
>;

/** The settings of such a table. */
export type OwnSettings<Name extends string, Shape extends z.ZodRawShape> = { readonly kind: Name } & SettingsOf<
  z.ZodObject<Shape>
>;

export function tableOfKind<Name extends string, Shape extends z.ZodRawShape>(
  name: Name,
  settings: Shape,
): TableOfKind<Name, Shape> {
  return z.strictObject({ kind: z.literal(name), ...settings });
}

interface HasTable {
  readonly table: z.ZodObject;
}

/** The tables of all members, for a union by `kind`. */
export function tablesOf<T extends readonly [HasTable, ...HasTable[]]>([first, ...more]: T): readonly [
  T[number]['table'],
  ...T[number]['table'][],
] {
  return [first.table, ...more.map(({ table }) => table)];
}

export interface OfKind {
  readonly kind: string;
}

/** Narrows accepted settings to one member: the `kind` of an accepted table shows its member. */
export function ownSettingsOf<Name extends string, Shape extends z.ZodRawShape>(
  name: Name,
): (all: OfKind) => OwnSettings<Name, Shape> {
  const isOwn = (all: OfKind): all is OwnSettings<Name, Shape> => all.kind === name;
  return (all) => {
    if (isOwn(all)) return all;
    throw new RangeError(`${all.kind} is not ${name}`);
  };
}
