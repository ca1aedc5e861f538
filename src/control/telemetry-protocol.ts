import * as z from 'zod';

import { maybeUndefined } from './schema-parts.ts';
import type { Infer } from './schema-parts.ts';

/** The schemas of what the control socket says about the spool and the sensors; the types of telemetry/ follow from them. */

const count = z.number();

/**
 * `assumed`: nothing on this machine tells whether the clock was set, or telling takes too long, and the time looks
 * right. `service`: nothing tells, and the time is the one in the service's replies.
 */
export const clockStates = ['unset', 'assumed', 'service', 'set'] as const;
export type ClockState = (typeof clockStates)[number];

const spool = z.object({
  pointsInMemory: count,
  pointsOnDisk: count,
  bytesOnDisk: count.describe('Of the points on disk; the file has more.'),
  fileBytes: count,
  oldestAgeMs: maybeUndefined(count).describe('Of the points on disk; undefined: there are none, or nobody knows yet.'),
  properties: count,
  dropped: z.object({
    'too-old': count,
    'queue-full': count,
    'memory-full': count,
    refused: count,
    damaged: count,
  }),
  deadLetters: count,
  flashBytesPerDay: count,
  bootsWithEstimatedTime: count.describe(
    'Boots whose clock was never set: the times of their points are the latest that are possible.',
  ),
  error: maybeUndefined(z.string()).describe('Why nothing is on disk now.'),
});
export type QueueStats = Infer<typeof spool>;

const delivery = z.object({
  delivered: count,
  requests: count,
  failedRequests: count,
  resent: count.describe('Points that were sent more than once; the service may have them twice, with the same time.'),
  suspendedEvents: z.array(z.string()),
  error: maybeUndefined(z.string()).describe('Why nothing goes through now.'),
});
export type DeliveryStats = Infer<typeof delivery>;

/** Why something that came from a source was not used. */
export const dropReasons = [
  'malformed',
  'no-match',
  'not-a-number',
  'ignored',
  'too-fast',
  'too-long',
  'unusable',
] as const;
export type DropReason = (typeof dropReasons)[number];

/** How far a source has come; `delivering`: things come, and no reading can be made of them. */
export const sourceStates = ['connected', 'delivering', 'parsing'] as const;
export type SourceState = (typeof sourceStates)[number];

/** What is known of each source, in the list of the spool and in that of the sensors. */
const progress = {
  state: maybeUndefined(z.enum(sourceStates)).describe('Undefined: it is not connected, or the daemon is older.'),
  dropped: count.default(0).describe('What came and was not used.'),
  droppedFor: z.partialRecord(z.enum(dropReasons), count).default({}).describe('The same, by why.'),
  lastDrop: maybeUndefined(z.string()).describe('Why, with a sample.'),
  lastError: maybeUndefined(z.string()).describe('Since the last reading or connection; undefined: it works.'),
  failingForMs: maybeUndefined(count).describe(
    'How long it has been failing, or has been delivering nothing that can be used.',
  ),
};

const source = z.object({
  name: z.string(),
  readings: count,
  failures: count,
  lastReadingAgeMs: count.optional().describe('Undefined: there was none, or the daemon is older.'),
  silentForMs: count.optional().describe('Since the last reading, or the start of the daemon.'),
  ...progress,
});
export type SourceStats = Infer<typeof source>;

export const telemetryReply = z.object({
  spool,
  delivery,
  clock: z.enum(clockStates),
  sources: z.array(source),
  watches: z.array(z.object({ id: z.string(), lastError: maybeUndefined(z.string()) })),
  deadLetters: z.array(z.object({ event: z.string(), at: z.string(), value: z.string(), reason: z.string() })),
});
export type TelemetryStatus = Infer<typeof telemetryReply>;

export const flushReply = z.object({ onDisk: z.boolean() });

export const sensorUnits = [
  '°C',
  'm°C',
  'V',
  'mV',
  'A',
  'mA',
  'W',
  'mW',
  'J',
  'rpm',
  '%',
  'm%',
  'kPa',
  'lx',
  'm/s²',
  'rad',
  'rad/s',
  '°',
  'G',
  'Ω',
  'nF',
  'µg/m³',
  'm',
  'B',
  's',
] as const;
export type SensorUnit = (typeof sensorUnits)[number];

const unit = maybeUndefined(z.enum(sensorUnits)).describe(
  'Of the reading, before anything is scaled; undefined: nobody knows it.',
);

const output = z.object({
  kind: z.enum(['event', 'property']),
  id: z.string(),
  pointer: z.string().describe('RFC 6901; empty: the whole reading.'),
  scale: count,
  offset: count,
  value: maybeUndefined(z.string()).describe(
    'What is sent of the last reading: the begin of it, as JSON; undefined: nothing.',
  ),
  unit: maybeUndefined(z.enum(sensorUnits)).describe('Of the value; undefined: nobody knows it.'),
});

const sensor = z.object({
  name: z.string(),
  kind: z.string().describe('Of its source, as in the configuration.'),
  mode: z.enum(['polled', 'pushed']).describe('Asked at intervals, or speaks by itself.'),
  place: z.string().describe('What is read, without secrets.'),
  everyMs: maybeUndefined(count).describe('Of one that is asked.'),
  outputs: z.array(output),
  readings: count,
  failures: count,
  lastReading: maybeUndefined(z.string()).describe('The begin of it, as JSON; undefined: there was none.'),
  lastReadingAgeMs: maybeUndefined(count),
  unit,
  perMinute: maybeUndefined(count).describe('Readings, by the last 64 of them.'),
  lastErrorCode: maybeUndefined(z.string()),
  notice: maybeUndefined(z.string()).describe('What an operator should know although the source works.'),
  ...progress,
});
export type SensorReport = Infer<typeof sensor>;

export const sensorsReply = z.object({
  isLive: z.boolean().describe('False: no daemon runs, and this is what is configured.'),
  sensors: z.array(sensor),
});

export const tryInput = z.strictObject({ name: z.string().min(1).max(2_048) });
export const tryReply = z.object({
  reading: z.string().describe('The begin of it, as JSON.'),
  unit,
  outputs: z.array(output).default([]),
});
