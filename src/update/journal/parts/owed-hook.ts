import * as z from 'zod';

/** A program of the gateway that has still to be told how an attempt ended. */
export const owedHook = z.object({
  hook: z.enum(['after_commit', 'after_rollback']),
  attempt: z.string(),
  by: z.enum(['service', 'file', 'rollback']),
  version: z.object({ id: z.string().optional(), name: z.string() }),
  slot: z.enum(['A', 'B']),
  /** Why the version was left. */
  code: z.string().optional(),
  reason: z.string().optional(),
});

export type PendingHook = z.infer<typeof owedHook>;
