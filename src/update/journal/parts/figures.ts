import * as z from 'zod';

/** What an attempt cost so far, across restarts; what was moved since the last durable write may be missing. */
export const figures = z.object({
  /** Of the service's text. */
  fetchedBytes: z.number().optional(),
  writtenBytes: z.number().optional(),
  /** Were there already, and not written again. */
  savedBytes: z.number().optional(),
  /** Of deltas: made of the slot that runs, and not fetched. */
  fromBaseBytes: z.number().optional(),
});

export type Figures = z.infer<typeof figures>;
