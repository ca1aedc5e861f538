import * as z from 'zod';

import { maybeUndefined } from './schema-parts.ts';
import type { Infer } from './schema-parts.ts';

/** The schemas of the queue and the sensors on the control socket; the types of telemetry/ follow from them. */

const count = z.number();

/**
 * `assumed`: the machine cannot report whether the clock was set, or no time server sets it and the service shows no time;
 * the time is plausible. `service`: no time server sets the clock, and the time comes from the service's replies.
 */
export const clockStates = ['unset', 'assumed', 'service', 'set'] as const;
export type ClockState = (typeof clockStates)[number];

const spool = z.object({
  pointsInMemory: count,
  pointsOnDisk: count,
  bytesOnDisk: count.describe('The size of the datapoints on disk; the file is larger.'),
  fileBytes: count,
  oldestAgeMs: maybeUndefined(count).describe(
    'The age of the oldest datapoint on disk; omitted if there is none, or its age is unknown.',
  ),
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
    'Boots whose clock was never set: the times of their datapoints are the latest possible.',
  ),
  error: maybeUndefined(z.string()).describe('The reason for not writing to disk.'),
});
export type QueueStats = Infer<typeof spool>;

const delivery = z.object({
  delivered: count,
  requests: count,
  failedRequests: count,
  resent: count.describe(
    'Datapoints that were sent more than once; the service may have them twice, with the same time.',
  ),
  suspendedEvents: z.array(z.string()),
  error: maybeUndefined(z.string()).describe('The reason for the failing delivery.'),
});
export type DeliveryStats = Infer<typeof delivery>;

/** The reasons for not using a value of a source. */
export const dropReasons = [
  'empty',
  'malformed',
  'no-match',
  'not-a-number',
  'ignored',
  'too-fast',
  'too-long',
  'unusable',
] as const;
export type DropReason = (typeof dropReasons)[number];

/**
 * The progress of a source; `connected`: nothing has arrived, or a push source has been silent for ten minutes.
 * `delivering`: it delivers values, but none is a usable reading.
 */
export const sourceStates = ['connected', 'delivering', 'parsing'] as const;
export type SourceState = (typeof sourceStates)[number];

/** The members of a source, both in the reply about the queue and about the sensors. */
const progress = {
  silentForMs: count.optional().describe('The time since the last reading, or since the start of the daemon.'),
  state: maybeUndefined(z.enum(sourceStates)).describe('Omitted if it is not connected, and by an older daemon.'),
  dropped: count.default(0).describe('Received values that were not used.'),
  droppedFor: z.partialRecord(z.enum(dropReasons), count).default({}).describe('The same, by reason.'),
  lastDrop: maybeUndefined(z.string()).describe('The reason, with a sample.'),
  lastError: maybeUndefined(z.string()).describe(
    'The error since the last reading or connection; omitted if it works.',
  ),
  failingForMs: maybeUndefined(count).describe(
    'The time since it has been failing, or delivering only unusable values.',
  ),
};

const source = z.object({
  name: z.string(),
  readings: count,
  failures: count,
  lastReadingAgeMs: count.optional().describe('Omitted if there was none, and by an older daemon.'),
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

const unit = maybeUndefined(z.enum(sensorUnits)).describe('The unit of the raw reading; omitted if unknown.');

const output = z.object({
  kind: z.enum(['event', 'property']),
  id: z.string(),
  pointer: z.string().describe('RFC 6901; empty for the whole reading.'),
  scale: count,
  offset: count,
  value: maybeUndefined(z.string()).describe(
    'The value of the last reading as it is sent: its start, as JSON; omitted if nothing is sent.',
  ),
  unit: maybeUndefined(z.enum(sensorUnits)).describe('The unit of the value; omitted if unknown.'),
});

const sensor = z.object({
  name: z.string(),
  kind: z.string().describe('The kind of its source, as in the configuration.'),
  mode: z.enum(['polled', 'pushed']).describe('A polled source, or a push source.'),
  place: z.string().describe('The location that is read, without secrets.'),
  everyMs: maybeUndefined(count).describe('The interval of a polled source.'),
  outputs: z.array(output),
  readings: count,
  failures: count,
  lastReading: maybeUndefined(z.string()).describe('Its start, as JSON; omitted if there was none.'),
  lastReadingAgeMs: maybeUndefined(count),
  unit,
  perMinute: maybeUndefined(count).describe('Readings per minute, from the last 64 readings.'),
  lastErrorCode: maybeUndefined(z.string()),
  notice: maybeUndefined(z.string()).describe('A note for operators although the source works.'),
  ...progress,
});
export type SensorReport = Infer<typeof sensor>;

export const sensorsReply = z.object({
  isLive: z.boolean().describe('False without a daemon: these are the configured sensors.'),
  sensors: z.array(sensor),
});

export const tryInput = z.strictObject({ name: z.string().min(1).max(2_048) });
export const tryReply = z.object({
  reading: z.string().describe('Its start, as JSON.'),
  unit,
  outputs: z.array(output).default([]),
});
