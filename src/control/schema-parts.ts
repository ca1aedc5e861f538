import * as z from 'zod';

type ReadonlyDeep<T> = T extends object ? { readonly [Member in keyof T]: ReadonlyDeep<T[Member]> } : T;

/** The read-only output type of a schema. */
export type Infer<Schema extends z.ZodType> = ReadonlyDeep<z.output<Schema>>;

/** A member that the type always has, although its value may be undefined; JSON then omits it. */
export function maybeUndefined<T extends z.ZodType>(schema: T) {
  return schema.optional().transform((value) => value);
}

/**
 * A text without characters that move a cursor or turn the writing direction: people read it on a terminal and in the
 * logs of other programs.
 */
export function plainText(maxLength: number) {
  return z
    .string()
    .min(1)
    .max(maxLength)
    .regex(/^[^\p{Cc}\u202A-\u202E\u2066-\u2069]*$/u, { error: 'contains control characters' });
}
