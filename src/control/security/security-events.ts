import * as z from 'zod';

import type { Infer } from '../schema-parts.ts';

export const securityEvent = z.object({
  number: z.int().positive().describe('Rises with each event, also beyond what is kept.'),
  id: z.string(),
  at: z.string().describe("ISO 8601, by the gateway's clock."),
  detail: z.string(),
  count: z.int().positive().describe('How often the same happened, the last time at `lastAt`.'),
  lastAt: z.string(),
});

export type SecurityEvent = Infer<typeof securityEvent>;

export const securityReport = z.object({
  events: z.array(securityEvent).describe('The oldest first.'),
  discarded: z.int().nonnegative().describe('How many there were before them.'),
});

export type SecurityReport = Infer<typeof securityReport>;
