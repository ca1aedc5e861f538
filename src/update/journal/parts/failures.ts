import * as z from 'zod';

import { versionRef } from './attempt.ts';

const knownQuarantined = z.object({
  /** Undefined: it was refused before its digest was known. */
  digest: z.string().optional(),
  version: versionRef,
  code: z.string(),
  reason: z.string(),
  at: z.string(),
});

export const quarantined: z.ZodType<z.infer<typeof knownQuarantined>> = knownQuarantined.loose();

/** Since when something waits, and for how many looks at the service already. */
export const waiting = { since: z.string().optional(), looks: z.number().optional() };

const knownTries = z.object({
  versionId: z.string(),
  begun: z.number(),
  failed: z.number(),
  gaveUp: z.number(),
  ...waiting,
});
export const tries: z.ZodType<z.infer<typeof knownTries>> = knownTries.loose();
