import * as z from 'zod';

import type { Of } from './reports.ts';

export const securityEvent = z.object({
  /** Rises with each event, also beyond what is kept. */
  number: z.int().positive(),
  id: z.string(),
  /** ISO 8601, by the gateway's clock. */
  at: z.string(),
  detail: z.string(),
  /** How often the same happened, the last time at `lastAt`. */
  times: z.int().positive(),
  lastAt: z.string(),
});

export type SecurityEvent = Of<typeof securityEvent>;

export const securityReport = z.object({
  /** The oldest first. */
  events: z.array(securityEvent),
  /** How many there were before them. */
  forgotten: z.int().nonnegative(),
});

export type SecurityReport = Of<typeof securityReport>;
