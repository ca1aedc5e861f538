import * as z from 'zod';

import { versionRef } from './attempt.ts';
import { firmwareRecord } from './firmware-record.ts';
import { slotName } from './slot-record.ts';

const knownInstalled = firmwareRecord.extend({
  version: versionRef,
  slot: slotName.optional(),
  at: z.string(),
  /** No agent has installed it: the version is the image's own word, and nothing of it was verified. */
  factory: z.boolean().optional(),
  /** A person installed it while the service named this version: it stays until the service names another one. */
  overrides: z.string().optional(),
  /** A person installed it, and what the service named then is not known yet: the next look will tell. */
  byHand: z.boolean().optional(),
  /** A person went back to it: what `overrides` names was left, or comes later. */
  wentBack: z.boolean().optional(),
  /** A version of the service that has the same name, but is another one. */
  namesake: z.string().optional(),
  /** A list of keys was taken later: the service knows the firmware by the list's id, and knew it by `ownId` before. */
  underList: z.object({ id: z.string(), name: z.string(), ownId: z.string().optional() }).optional(),
});

/** A newer agent may add members to such a record; they are kept, though their meaning is unknown. */
export const installed: z.ZodType<z.infer<typeof knownInstalled>> = knownInstalled.loose();
