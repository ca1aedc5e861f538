import * as z from 'zod';

import type { Of } from './reports.ts';

/** What a file with a firmware is, and whether it would be installed here. */
export const fileReport = z.object({
  file: z.string(),
  /** Undefined: it could not be found out, see `obstacles`. */
  kind: z.enum(['artifact', 'image', 'trust-list']).optional(),
  /** `sha256:` and hex: of an artifact's manifest, or of an image. */
  digest: z.string().optional(),
  /** The release's own name. */
  name: z.string().optional(),
  deviceTypes: z.array(z.string()).optional(),
  securityVersion: z.number().optional(),
  /** `trusted`: by a key that `[trust]` knows, which may have ended or been revoked. */
  signature: z.enum(['trusted', 'unknown-key', 'none']).optional(),
  signedBy: z.object({ fingerprint: z.string(), name: z.string().optional() }).optional(),
  payloads: z.array(
    z.object({
      fileName: z.string(),
      /** Where it goes; undefined: nowhere on this gateway. */
      target: z.string().optional(),
      sizeBytes: z.number().optional(),
      digest: z.string().optional(),
    }),
  ),
  /** It is what runs. */
  isInstalled: z.boolean().optional(),
  /** Everything that stands in the way, by errors' stable codes. Empty: it would be installed. */
  obstacles: z.array(z.object({ code: z.string(), message: z.string(), advice: z.string().optional() })),
  /** Why nobody could say whether it would be installed. */
  unjudged: z.string().optional(),
});
export type FileReport = Of<typeof fileReport>;
