import * as z from 'zod';

import type { Infer } from './schema-parts.ts';

/** What a file with a firmware contains, and whether this gateway would install it. */
export const fileReport = z.object({
  file: z.string(),
  kind: z
    .enum(['artifact', 'image', 'trust-list'])
    .optional()
    .describe('Undefined: it could not be found out, see `obstacles`.'),
  digest: z.string().optional().describe("`sha256:` and hex: of an artifact's manifest, or of an image."),
  name: z.string().optional().describe("The release's own name."),
  deviceTypes: z.array(z.string()).optional(),
  securityVersion: z.number().optional(),
  signature: z
    .enum(['trusted', 'unknown-key', 'none'])
    .optional()
    .describe('`trusted`: by a key that `[trust]` knows, which may have ended or been revoked.'),
  signedBy: z.object({ fingerprint: z.string(), name: z.string().optional() }).optional(),
  payloads: z.array(
    z.object({
      fileName: z.string(),
      target: z.string().optional().describe('Where it goes; undefined: nowhere on this gateway.'),
      sizeBytes: z.number().optional(),
      digest: z.string().optional().describe('Of what its place is to hold.'),
      base: z.string().optional().describe('It is a delta: the digest of the image that must run.'),
    }),
  ),
  trustList: z
    .object({
      number: z.number(),
      changes: z.array(z.string()).describe('What it revokes, adds and leaves out, in words.'),
    })
    .optional()
    .describe('It is a list of keys and revocations.'),
  isInstalled: z.boolean().optional().describe('It is what runs.'),
  obstacles: z
    .array(z.object({ code: z.string(), message: z.string(), advice: z.string().optional() }))
    .describe("Everything that stands in the way, by errors' stable codes. Empty: it would be installed."),
  unjudged: z.string().optional().describe('Why nobody could say whether it would be installed.'),
});
export type FileReport = Infer<typeof fileReport>;
