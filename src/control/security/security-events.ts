import * as z from 'zod';

import type { Infer } from '../schema-parts.ts';

export const securityEvent = z.object({
  number: z.int().positive().describe('Increases with each event, including discarded ones.'),
  id: z.string(),
  at: z.string().describe("ISO 8601, by the gateway's clock."),
  detail: z.string(),
  count: z.int().positive().describe('The number of occurrences, the last one at `lastAt`.'),
  lastAt: z.string(),
});

export type SecurityEvent = Infer<typeof securityEvent>;

export const securityReport = z.object({
  events: z.array(securityEvent).describe('The oldest first.'),
  discarded: z.int().nonnegative().describe('The number of older, discarded entries.'),
});

export type SecurityReport = Infer<typeof securityReport>;
