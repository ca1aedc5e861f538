import * as z from 'zod';

/** What the control socket says about the spool. JSON leaves out what is undefined. */

function absent<T extends z.ZodType>(schema: T) {
  return schema.optional().transform((value) => value);
}

const count = z.number();

export const clockStates = ['unset', 'assumed', 'service', 'set'] as const;

const spool = z.object({
  pointsInMemory: count,
  pointsOnDisk: count,
  bytesOnDisk: count,
  fileBytes: count,
  oldestAgeMs: absent(count),
  properties: count,
  dropped: z.object({
    'too-old': count,
    'spool-full': count,
    'memory-full': count,
    refused: count,
    damaged: count,
  }),
  deadLetters: count,
  flashBytesPerDay: count,
  estimatedBoots: count,
  trouble: absent(z.string()),
});

const delivery = z.object({
  delivered: count,
  requests: count,
  failedRequests: count,
  resent: count,
  parkedEvents: z.array(z.string()),
  trouble: absent(z.string()),
});

export const telemetryReply = z.object({
  spool,
  delivery,
  clock: z.enum(clockStates),
  sources: z.array(
    z.object({
      name: z.string(),
      readings: count,
      failures: count,
      lastReadingAgeMs: count.optional(),
      dropped: count.default(0),
      lastDrop: absent(z.string()),
      lastError: absent(z.string()),
    }),
  ),
  watches: z.array(z.object({ id: z.string(), lastError: absent(z.string()) })),
  deadLetters: z.array(z.object({ event: z.string(), at: z.string(), value: z.string(), reason: z.string() })),
});

export const flushReply = z.object({ onDisk: z.boolean() });
