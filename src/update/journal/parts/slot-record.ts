import * as z from 'zod';

import { digestedPart } from './checkpoint-record.ts';

export const slotName = z.enum(['A', 'B']);

/** Invariant 2: what a partition was last verified to hold. Gone, durably, before its first byte is written. */
const knownPartitionRecord = digestedPart.extend({
  /** The name of the version. */
  version: z.string(),
  signedBy: z.string().optional(),
  /** Nothing writes to the image while it runs: if it reads differently, somebody has tampered with it. */
  readOnly: z.boolean().optional(),
  at: z.string(),
});

export const partitionRecord: z.ZodType<z.infer<typeof knownPartitionRecord>> = knownPartitionRecord.loose();

export const slotKnowledge = z.object({
  /** What each partition of the slot holds, by the name of its target. */
  records: z.record(z.string(), partitionRecord),
  /** The slot was seen to run with what it holds now. This is removed with the first record. */
  seen: z.object({ at: z.string() }).optional(),
});
