import * as z from 'zod';

import { isPlausible } from '../../../system/time/wall-clock.ts';

/** A person wants nothing to be installed; in the journal, so that it outlives restarts and both slots know it. */
export const standstill = z.object({
  since: z.string(),
  /** ISO 8601; undefined: until it is lifted. */
  until: z.string().optional(),
  reason: z.string().optional(),
});

export type Standstill = z.infer<typeof standstill>;

/** Undefined: it has ended. Without a clock nothing ends by itself. */
export function standsStill(held: Standstill | undefined, nowMs: number): Standstill | undefined {
  if (held?.until === undefined) return held;
  return isPlausible(nowMs) && nowMs >= Date.parse(held.until) ? undefined : held;
}
