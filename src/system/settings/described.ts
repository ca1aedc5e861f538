import type * as z from 'zod';

// Of a list whose members describe themselves: protocols, bootloaders, sources.

interface Named {
  readonly name: string;
}

/** For an enum. */
export function namesOf<T extends Named>(list: readonly T[]): readonly T['name'][] {
  return list.map(({ name }) => name);
}

/** `name` was checked against the list. */
export function withName<T extends Named>(list: readonly T[], name: T['name']): T {
  const found = list.find((one) => one.name === name);
  if (found === undefined) throw new RangeError(`${name} is none of ${namesOf(list).join(', ')}`);
  return found;
}

interface HasSettings {
  readonly settings: z.ZodRawShape;
}

type Intersection<T> = (T extends unknown ? (one: T) => void : never) extends (all: infer All) => void ? All : never;

/** What they want to be told, side by side; what several want stands there once. The second line is for the compiler. */
export function allSettings<T extends HasSettings>(list: readonly T[]): Intersection<T['settings']>;
export function allSettings(list: readonly HasSettings[]): z.ZodRawShape {
  return Object.fromEntries(list.flatMap(({ settings }) => Object.entries(settings)));
}
