import * as z from 'zod';

/** The end of an attempt, as the service is told of it. */
const knownOutcome = z.object({
  attempt: z.string(),
  version: z.string(),
  outcome: z.enum(['installed', 'failed', 'refused', 'rolled-back']),
  code: z.string(),
  reason: z.string(),
  at: z.string(),
  /** So many earlier attempts ended the same way, and are not reported separately. */
  count: z.number().optional(),
  /** So many earlier ends were dropped, because the service was away for too long. */
  dropped: z.number().optional(),
  by: z.enum(['service', 'file', 'rollback']).optional(),
  /** The number of the list of keys and revocations that took effect. */
  trustList: z.number().optional(),
});

export const outcome: z.ZodType<z.infer<typeof knownOutcome>> = knownOutcome.loose();
