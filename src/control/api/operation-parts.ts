import * as z from 'zod';

import { nestedWithin } from '../../system/json-value.ts';
import { plainText } from '../schema-parts.ts';

// Inputs and replies that several operations of operations.ts share.

export function emptyReply() {
  return z.strictObject({});
}

export function done() {
  return z.object({});
}

/** `disk`: stored on disk, and sent when the service accepts it; `service`: accepted by the service. */
export function acceptedBy() {
  return z.object({ safeAt: z.enum(['disk', 'service']).optional() });
}

export function identifier() {
  return plainText(256);
}

export function filePath() {
  return z
    .string()
    .startsWith('/')
    .max(4096)
    .describe(
      "The client's path of the file, for logs and history, and to recognize a repeated request. It is not opened.",
    );
}

export function allowDowngrade() {
  return z
    .boolean()
    .optional()
    .describe(
      'true allows an older release for this request (root only). false rejects older releases, unless [trust] downgrade is' +
        ' "allow"; it always applies to operators.',
    );
}

export function installFlags() {
  return z.strictObject({
    reboot: z.boolean().default(true).describe('false: stop before the reboot and report that it is needed.'),
    force: z
      .boolean()
      .default(false)
      .describe('Ignores quarantine, attempts, windows and hooks for this request. Never skips verification.'),
  });
}

export function jsonValue() {
  return z
    .unknown()
    .refine((value): boolean => value !== undefined, { error: 'is missing' })
    .refine((value) => nestedWithin(value), { error: 'is nested too deeply' });
}

export function datapoint() {
  return z.strictObject({ event: identifier(), value: jsonValue(), at: z.iso.datetime().optional() });
}
