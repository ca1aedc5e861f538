import * as z from 'zod';

import { figures } from './figures.ts';

export const versionRef = z.object({
  /** Undefined: from a local file, so the service has no name for it. */
  id: z.string().optional(),
  name: z.string(),
});

export const attempt = z.object({
  /** Unique; names the attempt in reports. */
  id: z.string(),
  version: versionRef,
  by: z.enum(['service', 'file', 'rollback']),
  startedAt: z.string(),
  /** With a rollback: partitions that could not be verified before they were booted again, and why. */
  unverified: z.array(z.string()).optional(),
  /** A person said that nothing may hold this attempt back. */
  forced: z.boolean().optional(),
  /** A person wants to reboot by hand. */
  rebootByHand: z.boolean().optional(),
  /** A person asked for what the service names. */
  manual: z.boolean().optional(),
  figures: figures.optional(),
  /** Why the release is below the floor, if root allowed that. */
  downgrade: z.string().optional(),
});
