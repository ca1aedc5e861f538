import * as z from 'zod';

/** Promise `floors`: the lowest values that a signed release must have. A commit raises them, nothing lowers them. */
const floor = z.object({
  securityVersion: z.number().optional(),
  /** The highest semantic version among the names of signed releases. */
  name: z.string().optional(),
});

export const floors = {
  floor: floor.optional(),
  /**
   * The highest security counter of images for MCUboot, by board. It is not in `floor`, where an older agent would drop
   * it.
   */
  boardFloors: z.record(z.string(), z.number()).optional(),
  /** The highest version of images for MCUboot, by board. */
  boardVersions: z.record(z.string(), z.string()).optional(),
};

export type Floor = z.infer<typeof floor>;
