import * as z from 'zod';

import { digestedPart } from './checkpoint-record.ts';

/** What was verified of a firmware when it was staged. */
export const firmwareRecord = z.object({
  digest: z.string(),
  signedBy: z.string().optional(),
  /** The name of the release itself. */
  name: z.string().optional(),
  /** The `security_version` that the release itself provides. */
  securityVersion: z.number().optional(),
  provides: z.record(z.string(), z.string()),
  /** What the slots and the kept files hold, by target: enough to verify them again by reading. */
  payloads: z.array(
    digestedPart.extend({
      target: z.string(),
      kind: z.enum(['slots', 'mcu', 'package']).default('slots'),
      order: z.number().optional(),
      securityCounter: z.number().optional(),
      imageVersion: z.string().optional(),
      /** In a rollback by a person: the board gets back what it held before this payload. */
      back: z.boolean().optional(),
      /** Of an installed payload: the digest of the one that the board had before; `none`: no update had brought it one. */
      over: z.string().optional(),
    }),
  ),
});
