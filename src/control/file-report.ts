import * as z from 'zod';

import type { Infer } from './schema-parts.ts';

/** The contents of a file, and whether this gateway would install it. */
export const fileReport = z.object({
  file: z.string(),
  kind: z.enum(['artifact', 'image', 'trust-list']).optional().describe('Omitted if unknown, see `obstacles`.'),
  digest: z.string().optional().describe("`sha256:` and hex, of an artifact's manifest or of an image."),
  name: z.string().optional().describe("The release's own name."),
  deviceTypes: z.array(z.string()).optional(),
  securityVersion: z.number().optional(),
  signature: z
    .enum(['trusted', 'unknown-key', 'none'])
    .optional()
    .describe('`trusted`: by a key in `[trust]`, which may be expired or revoked.'),
  signedBy: z.object({ fingerprint: z.string(), name: z.string().optional() }).optional(),
  payloads: z.array(
    z.object({
      fileName: z.string(),
      target: z.string().optional().describe('The target; omitted if this gateway has none for it.'),
      sizeBytes: z.number().optional(),
      digest: z.string().optional().describe('The digest of the installed content.'),
      base: z.string().optional().describe('For a delta, the digest of the image that must be running.'),
    }),
  ),
  trustList: z
    .object({
      number: z.number(),
      changes: z.array(z.string()).describe('Revoked, added and removed keys and releases, as text.'),
    })
    .optional()
    .describe('The contents of a trust list.'),
  isInstalled: z.boolean().optional().describe('True if it is already running.'),
  obstacles: z
    .array(z.object({ code: z.string(), message: z.string(), advice: z.string().optional() }))
    .describe('The reasons that prevent its installation, with stable codes. Empty if it would be installed.'),
  unjudged: z.string().optional().describe('The reason for not knowing whether it would be installed.'),
});
export type FileReport = Infer<typeof fileReport>;
