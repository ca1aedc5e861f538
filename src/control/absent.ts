import * as z from 'zod';

/** A member that is always there, and may be undefined; JSON leaves it out then. */
export function absent<T extends z.ZodType>(schema: T) {
  return schema.optional().transform((value) => value);
}

/** People read it on a terminal, and in the logs of others: nothing in it may move a cursor or turn what follows around. */
export function plainText(maxLength: number) {
  return z
    .string()
    .min(1)
    .max(maxLength)
    .regex(/^[^\p{Cc}\u202A-\u202E\u2066-\u2069]*$/u, { error: 'holds control characters' });
}
