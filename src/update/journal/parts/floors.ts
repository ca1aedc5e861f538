import * as z from 'zod';

/** The least that a signed release must be. Raised when one is committed, lowered by nothing. */
const floor = z.object({
  securityVersion: z.number().optional(),
  /** The highest semantic version among the names of signed releases. */
  name: z.string().optional(),
});

export const floors = {
  floor: floor.optional(),
  /** Of images for MCUboot: the security counter, by board. Not in `floor`, where an older agent would not keep it. */
  boardFloors: z.record(z.string(), z.number()).optional(),
  /** Of the same: the version. */
  boardVersions: z.record(z.string(), z.string()).optional(),
};

export type Floor = z.infer<typeof floor>;
