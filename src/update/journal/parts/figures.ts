import * as z from 'zod';

/** What an attempt cost so far, across restarts. Anything since the last durable write may be missing. */
export const figures = z.object({
  /** Bytes of the service's text. */
  fetchedBytes: z.number().optional(),
  writtenBytes: z.number().optional(),
  /** Bytes that were already there, and were not written again. */
  reusedBytes: z.number().optional(),
  /** Bytes that deltas took from the running slot instead of fetching them. */
  deltaBaseBytes: z.number().optional(),
});

export type Figures = z.infer<typeof figures>;
