import * as z from 'zod';

import { nestedWithin } from '../../system/json-value.ts';
import { plainText } from '../schema-parts.ts';

// What several operations of operations.ts take or answer.

export function emptyReply() {
  return z.strictObject({});
}

export function done() {
  return z.object({});
}

/** `disk`: durable here, and sent when the service takes it; `service`: the service has it. */
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
      'Where the client has the file: for logs and history, and to recognize the same order. It is not opened.',
    );
}

export function allowDowngrade() {
  return z
    .boolean()
    .optional()
    .describe(
      'true lifts the floor for this once (root only). false refuses each older release, unless [trust] downgrade is' +
        ' "allow"; it always applies to operators.',
    );
}

export function installFlags() {
  return z.strictObject({
    reboot: z.boolean().default(true).describe('false: stop before the reboot and say that one is needed.'),
    force: z
      .boolean()
      .default(false)
      .describe(
        'For this order alone, quarantine, attempts, windows and hooks do not count. Never lifts verification.',
      ),
  });
}

export function jsonValue() {
  return z
    .unknown()
    .refine((value): boolean => value !== undefined, { error: 'is missing' })
    .refine((value) => nestedWithin(value), { error: 'is nested too deep' });
}

export function datapoint() {
  return z.strictObject({ event: identifier(), value: jsonValue(), at: z.iso.datetime().optional() });
}
