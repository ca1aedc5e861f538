import * as z from 'zod';

/** The least that a signed release must be. Raised when one is committed, lowered by nothing. */
export const floor = z.object({
  securityVersion: z.number().optional(),
  /** The highest semantic version among the names of signed releases. */
  name: z.string().optional(),
});

/** The same of images for MCUboot, by board: security counters … */
export const boardFloors = z.record(z.string(), z.number());
/** … and versions. */
export const boardVersions = z.record(z.string(), z.string());

export type Floor = z.infer<typeof floor>;
