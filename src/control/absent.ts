import type * as z from 'zod';

/** A member that is always there, and may be undefined; JSON leaves it out then. */
export function absent<T extends z.ZodType>(schema: T) {
  return schema.optional().transform((value) => value);
}
