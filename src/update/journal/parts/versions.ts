import * as z from 'zod';

import { versionRef } from './attempt.ts';

/** Since when something waits, and for how many update checks already. */
export const waiting = { since: z.string().optional(), looks: z.number().optional() };

const knownBlame = z.object({ code: z.string(), reason: z.string(), at: z.string() });
const blame: z.ZodType<z.infer<typeof knownBlame>> = knownBlame.loose();

const knownVersion = z.object({
  /** Undefined: its header was never read. */
  digest: z.string().optional(),
  /** The last id that the service offered it under. */
  version: versionRef,
  /** How often it was begun, failed, and failed in a way that waiting cannot cure. */
  begun: z.number(),
  failed: z.number(),
  gaveUp: z.number(),
  ...waiting,
  /** An operator cancelled it: only an operator starts it again. */
  cancelled: z.boolean().optional(),
  /** Why it is quarantined. */
  bad: blame.optional(),
});

/** The history of a release that the service offered or an operator installed. */
export const versionEntry: z.ZodType<z.infer<typeof knownVersion>> = knownVersion.loose();
