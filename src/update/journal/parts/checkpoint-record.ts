import * as z from 'zod';

export const digestedPart = z.object({ sizeBytes: z.number(), digest: z.string() });

export const checkpoint = z.object({
  wire: z.object({ offset: z.number(), validator: z.string(), totalBytes: z.number() }),
  encoding: z.enum(['base64', 'base64url', 'hex']),
  carry: z.string(),
  image: digestedPart,
});

const wholeFile = z.object({ payload: z.number(), name: z.string(), sizeBytes: z.number() });

/** It stands beside `checkpoint` and not in it, where an older agent would take it for that of an image. */
export const artifactCheckpoint = checkpoint.extend({
  artifact: z.object({
    head: z.string(),
    payload: z.number(),
    member: z.object({ sizeBytes: z.number(), leftBytes: z.number() }),
    file: z.object({ name: z.string(), sizeBytes: z.number() }),
    delta: z.object({ takenBytes: z.number(), skipBytes: z.number() }).optional(),
    whole: z.array(wholeFile).readonly(),
  }),
});
