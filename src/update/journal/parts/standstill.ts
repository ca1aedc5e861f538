import * as z from 'zod';

import { isPlausible } from '../../../system/time/wall-clock.ts';

/** A hold by a person. It is in the journal, so that it survives restarts and both slots know it. */
export const standstill = z.object({
  since: z.string(),
  /** ISO 8601; undefined: until it is lifted. */
  until: z.string().optional(),
  reason: z.string().optional(),
});

export type ManualHold = z.infer<typeof standstill>;

/** The hold; undefined: it has ended. Without a clock it does not end by itself. */
export function activeHold(held: ManualHold | undefined, nowMs: number): ManualHold | undefined {
  if (held?.until === undefined) return held;
  return isPlausible(nowMs) && nowMs >= Date.parse(held.until) ? undefined : held;
}
