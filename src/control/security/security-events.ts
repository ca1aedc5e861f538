import * as z from 'zod';

import type { Of } from '../schema-parts.ts';

export const securityEvent = z.object({
  number: z.int().positive().describe('Rises with each event, also beyond what is kept.'),
  id: z.string(),
  at: z.string().describe("ISO 8601, by the gateway's clock."),
  detail: z.string(),
  times: z.int().positive().describe('How often the same happened, the last time at `lastAt`.'),
  lastAt: z.string(),
});

export type SecurityEvent = Of<typeof securityEvent>;

export const securityReport = z.object({
  events: z.array(securityEvent).describe('The oldest first.'),
  forgotten: z.int().nonnegative().describe('How many there were before them.'),
});

export type SecurityReport = Of<typeof securityReport>;
