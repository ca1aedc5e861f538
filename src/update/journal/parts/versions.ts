import * as z from 'zod';

import { versionRef } from './attempt.ts';

/** Since when something waits, and for how many looks at the service already. */
export const waiting = { since: z.string().optional(), looks: z.number().optional() };

const knownBlame = z.object({ code: z.string(), reason: z.string(), at: z.string() });
const blame: z.ZodType<z.infer<typeof knownBlame>> = knownBlame.loose();

const knownVersion = z.object({
  /** Undefined: its header was never read. */
  digest: z.string().optional(),
  /** The id under which the service named it last. */
  version: versionRef,
  /** How often it was begun, failed, and failed in a way that waiting cannot cure. */
  begun: z.number(),
  failed: z.number(),
  gaveUp: z.number(),
  ...waiting,
  /** A person ended its staging: it is begun again only when a person asks for it. */
  cancelled: z.boolean().optional(),
  /** Its trial ended badly, and it was to blame. */
  bad: blame.optional(),
});

/** What is remembered of a firmware that the service named or a person brought. */
export const versionEntry: z.ZodType<z.infer<typeof knownVersion>> = knownVersion.loose();
