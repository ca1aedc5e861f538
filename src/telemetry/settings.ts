import * as z from 'zod';

import { brokerLogin, topic } from '../mqtt/settings.ts';
import { tablesOf, withName } from '../system/settings/described.ts';
import { settingsOf } from '../system/settings/settings.ts';
import type { SettingsOf } from '../system/settings/settings.ts';
import {
  absolutePath,
  address,
  byteSize,
  command,
  duration,
  text,
  user,
  wholeNumber,
} from '../system/settings/values.ts';
import type { DurationText } from '../system/settings/values.ts';
import { countOf } from './sources/modbus/modbus-codec.ts';
import { sources } from './sources/sources.ts';

const sourceSchema = z
  .discriminatedUnion('kind', tablesOf(sources))
  .refine((source) => !('address' in source) || source.address + countOf(source) <= 65_536, {
    path: ['address'],
    error: 'an address whose last register is at most 65535: a 32-bit type takes 2 registers, a 64-bit type 4',
  });

export type SourceSettings = SettingsOf<typeof sourceSchema>;

const number = () => z.number({ error: 'a number' });
const positive = () => number().positive('a number above 0');

const pointClass = () =>
  z
    .enum(['urgent', 'normal', 'bulk'])
    .default('normal')
    .describe('Of datapoints: "urgent", "normal" or "bulk"; the last is dropped first where the bounds are reached');

/** How a reading is processed. */
const treatment = {
  pointer: text('a JSON pointer such as "/temperature"')
    .regex(/^\//, 'a JSON pointer such as "/temperature"')
    .optional()
    .meta({ description: 'Takes one value out of JSON', examples: ['/temperature'] }),
  scale: number()
    .default(1)
    .meta({ description: 'Multiplies it', examples: [0.001] }),
  offset: number()
    .default(0)
    .meta({ description: 'Is added then', examples: [-40] }),
  deadband: positive()
    .optional()
    .meta({ description: 'Smaller changes are not sent', examples: [0.2] }),
  deadband_percent: positive()
    .optional()
    .meta({ description: 'The same in percent, instead of deadband', examples: [1] }),
  heartbeat: duration('1s', '7d')
    .optional()
    .meta({ description: 'A reading is sent at least this often', examples: ['10m'] }),
  aggregate_window: duration('1s', '1d')
    .optional()
    .meta({ description: 'One value for each such period, which begins with a reading', examples: ['1m'] }),
  aggregate: z.enum(['mean', 'min', 'max', 'last']).default('mean').describe('Of the readings of such a period'),
};

const outputSchema = z.strictObject({
  event: text().optional(),
  property: text().optional(),
  priority: pointClass(),
  ...treatment,
});

const polling = {
  every: duration('100ms', '1d')
    .optional()
    .meta({
      description:
        'How often the source is read; required unless it sends on its own ("mqtt", "serial", "exec" with stream)',
      examples: ['10s'],
    }),
  timeout: duration('100ms', '1h')
    .default('10s')
    .describe('For one reading of the source, from its turn on a line or connection that sources share'),
  ignore: z
    .array(number())
    .max(100)
    .default([])
    .meta({
      description: 'Values that the device sends without a measurement, before scale and offset',
      examples: [[32_768]],
    }),
  source: sourceSchema,
};

/** True if a source that is read at intervals has one. */
function hasInterval({ every, source }: { every?: unknown; source: Written<typeof sourceSchema> }): boolean {
  return every !== undefined || withName(sources, source.kind).speaks(source);
}

const interval = { path: ['every'], error: 'a duration such as "10s", since this source is read at intervals' };

export const sensorSchema = z
  .strictObject({
    event: text().optional(),
    priority: pointClass(),
    ...treatment,
    ...polling,
    outputs: z.array(outputSchema).max(100).default([]).describe('Several events and properties from one source'),
  })
  .refine(hasInterval, interval);

export const propertySchema = z.strictObject({ id: text(), ...treatment, ...polling }).refine(hasInterval, interval);

export const watchSchema = z.strictObject({
  id: text(),
  every: duration('1s', '1d'),
  output: z
    .discriminatedUnion('kind', [
      z.strictObject({
        kind: z.literal('command'),
        command: command(),
        user: user(),
        timeout: duration('1s', '1h').default('1m'),
      }),
      z.strictObject({ kind: z.literal('file'), path: absolutePath('/run/level') }),
      z.strictObject({ kind: z.literal('mqtt'), url: address(['mqtt', 'mqtts']), ...brokerLogin, topic: topic() }),
    ])
    .describe('Where the value of the property goes when it changes'),
});

const classBounds = (age: DurationText, bytes: number) =>
  z
    .strictObject({
      max_age: duration('1m', '3650d').default(age),
      max_bytes: wholeNumber(0, 2 ** 40).default(bytes),
    })
    .prefault({});

const MEBIBYTE = 1024 * 1024;

export const telemetrySchema = z.strictObject({
  gather: duration('0s', '1h').default('1s').describe('Live datapoints of an event are sent together after this time'),
  write_interval: duration('100ms', '1h')
    .default('10s')
    .describe('Datapoints that were not accepted are written to the disk after this time'),
  write_points: wholeNumber(1, 100_000).default(500).describe('Or after this number of datapoints'),
  memory_points: wholeNumber(10, 100_000).default(10_000).describe('Maximum number of datapoints in memory'),
  batch_points: wholeNumber(1, 10_000).default(500).describe('Maximum number of datapoints in one request'),
  max_bytes: wholeNumber(4_096, 2 ** 40)
    .default(64 * MEBIBYTE)
    .describe(
      'Limits of the datapoints on disk, in total and by class. The oldest of the lowest class are dropped first',
    ),
  urgent: classBounds('365d', 32 * MEBIBYTE),
  normal: classBounds('30d', 64 * MEBIBYTE),
  bulk: classBounds('7d', 64 * MEBIBYTE),
  min_free_bytes: wholeNumber(0, 2 ** 40)
    .default(16 * MEBIBYTE)
    .describe('Free space to keep on the file system of the queue'),
  flash_bytes_per_day: wholeNumber(MEBIBYTE, 2 ** 40)
    .default(250 * MEBIBYTE)
    .describe('Above this, datapoints are written less often'),
  backlog_points_per_second: wholeNumber(1, 1_000_000)
    .default(1_000)
    .describe('Maximum number of queued datapoints sent in a second'),
  source_points_per_second: wholeNumber(1, 10_000)
    .default(200)
    .describe('Limit for each push source; readings above it are dropped and counted'),
  source_bytes_per_second: byteSize('1KiB', '64MiB').default('256KiB').describe('The same in bytes'),
  report: z
    .strictObject({
      every: duration('10s', '1d').default('5m'),
      installed: text().optional(),
      slot: text().optional(),
      outcome: text().optional(),
      reason: text().optional(),
      uptime: text().optional(),
      figures: text().optional(),
    })
    .prefault({})
    .meta({
      description: 'Properties in which the agent reports about itself',
      examples: [
        {
          every: '5m',
          installed: 'installed_version',
          slot: 'slot',
          outcome: 'last_outcome',
          reason: 'last_reason',
          uptime: 'uptime',
          figures: 'agent',
        },
      ],
    }),
});

type Written<T extends z.ZodType> = z.output<T>;

/** `[telemetry]` */
export type TelemetrySettings = SettingsOf<typeof telemetrySchema>;

/** A property that is polled; its value is passed on when it changes. */
export type WatchSettings = SettingsOf<typeof watchSchema>;

/** One source and the processing of its readings, for sensors and properties alike. */
export interface MeasurementSettings {
  /** The name that users see: `sensors[0] (temperature)`. */
  readonly name: string;
  /** Omitted for a source that sends on its own. */
  readonly everyMs?: number | undefined;
  readonly timeoutMs: number;
  readonly source: SourceSettings;
  /** Numbers that are not measurements, as they are read. */
  readonly ignore: readonly number[];
  readonly outputs: readonly OutputSettings[];
}

export interface OutputSettings {
  readonly to:
    | { readonly kind: 'event'; readonly event: string; readonly class: 'urgent' | 'normal' | 'bulk' }
    | { readonly kind: 'property'; readonly id: string };
  /** A JSON pointer (RFC 6901); empty: the whole reading. */
  readonly pointer: string;
  readonly reduction: ReductionSettings;
}

/** The reduction of readings to fewer points. Times are in milliseconds of a monotonic clock. */
export interface ReductionSettings extends Pick<Treatment, 'scale' | 'offset' | 'heartbeatMs'> {
  /** A change of at most this is not sent. Omitted if every reading is sent. */
  readonly deadband: { readonly kind: 'absolute' | 'relative'; readonly value: number } | undefined;
  /** One value is sent for each period. */
  readonly over: { readonly periodMs: number; readonly aggregate: Treatment['aggregate'] } | undefined;
}

/** `[[sensors]]` */
export function sensorSettings(written: Written<typeof sensorSchema>, index: number): MeasurementSettings {
  const { event, outputs, ...sensor } = settingsOf(sensorSchema, written);
  const first = event === undefined ? [] : [output({ kind: 'event', event, class: sensor.priority }, sensor)];
  const more = outputs.flatMap((one): OutputSettings[] => {
    if (one.event !== undefined) return [output({ kind: 'event', event: one.event, class: one.priority }, one)];
    return one.property === undefined ? [] : [output({ kind: 'property', id: one.property }, one)];
  });
  const { everyMs, timeoutMs, source, ignore } = sensor;
  const name = `sensors[${index}]${event === undefined ? '' : ` (${event})`}`;
  return { name, everyMs, timeoutMs, source, ignore, outputs: [...first, ...more] };
}

/** `[[properties]]` */
export function propertySettings(written: Written<typeof propertySchema>, index: number): MeasurementSettings {
  const { id, everyMs, timeoutMs, source, ignore, ...property } = settingsOf(propertySchema, written);
  const name = `properties[${index}] (${id})`;
  return { name, everyMs, timeoutMs, source, ignore, outputs: [output({ kind: 'property', id }, property)] };
}

type Treatment = Omit<SettingsOf<typeof propertySchema>, 'id' | 'everyMs' | 'timeoutMs' | 'source' | 'ignore'>;

function output(to: OutputSettings['to'], treatment: Treatment): OutputSettings {
  const { pointer, scale, offset, heartbeatMs, aggregateWindowMs: periodMs, aggregate } = treatment;
  const over = periodMs === undefined ? undefined : { periodMs, aggregate };
  return {
    to,
    pointer: pointer ?? '',
    reduction: { scale, offset, deadband: deadbandOf(treatment), heartbeatMs, over },
  };
}

function deadbandOf({ deadband, deadbandPercent: percent }: Treatment): ReductionSettings['deadband'] {
  if (deadband !== undefined) return { kind: 'absolute', value: deadband };
  return percent === undefined ? undefined : { kind: 'relative', value: percent / 100 };
}
