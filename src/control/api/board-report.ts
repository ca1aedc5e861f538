import * as z from 'zod';

import { maybeUndefined } from '../schema-parts.ts';
import type { Infer } from '../schema-parts.ts';

const boardWriting = z.object({
  name: z.string(),
  since: maybeUndefined(z.string()).describe('ISO 8601; omitted if it cannot be read.'),
  restorable: z.boolean().describe('True if there is a backup of the previous image.'),
  needsOperator: z.boolean().optional().describe('True if the agent no longer tries to finish the write.'),
});
export type BoardWriting = Infer<typeof boardWriting>;

/** The evidence for the image that a board runs; see `knownBy` in `mcu/`. */
export const boardKnownBy = z.enum(['active-slot', 'first-slot', 'on-trial', 'otadata', 'read-back', 'sent']);

/** A configured board and the image that this agent flashed last. */
export const boardReport = z.object({
  name: z.string(),
  port: z.string(),
  protocol: z.string(),
  connected: z.boolean().describe('The port exists. Only a probe shows whether the board responds.'),
  chip: maybeUndefined(z.string()),
  imageDigest: maybeUndefined(z.string()),
  imageName: maybeUndefined(z.string()),
  flashedAt: maybeUndefined(z.string()),
  known: boardKnownBy
    .optional()
    .describe('The evidence that the board runs the image; "sent": none. Omitted if an older agent flashed it.'),
  boots: z.string().optional().describe('The slot that starts and its version, if the board has several slots.'),
  attempts: maybeUndefined(z.number()),
  roundTripMs: maybeUndefined(z.number()),
  writing: boardWriting
    .optional()
    .describe('A write that started and has not ended. Unless it is still running, the board may have no program.'),
});
export type BoardReport = Infer<typeof boardReport>;

export const boardProbe = z.object({
  name: z.string(),
  chip: z.string(),
  capabilities: z.array(z.string()).describe('The capabilities of its bootloader.'),
  boots: z.string().optional().describe('The slot that starts and its version, if the board has several slots.'),
  roundTripMs: maybeUndefined(z.number()),
});
export type BoardProbe = Infer<typeof boardProbe>;

export const boardPlan = z.object({
  name: z.string(),
  chip: z.string(),
  unitsTotal: z.number(),
  unitsDifferent: maybeUndefined(z.number()).describe('Omitted if the protocol cannot determine it.'),
});
export type BoardPlan = Infer<typeof boardPlan>;
