import * as z from 'zod';

import { brokerLogin, topic } from '../mqtt/settings.ts';
import { tablesOf, withName } from '../system/settings/described.ts';
import { settingsOf } from '../system/settings/settings.ts';
import type { SettingsOf } from '../system/settings/settings.ts';
import { absolutePath, address, command, duration, text, user } from '../system/settings/values.ts';
import { telemetrySchema } from './queue/settings.ts';
import { countOf, isBit } from './sources/modbus/modbus-codec.ts';
import { sources } from './sources/sources.ts';

const sourceSchema = z
  .discriminatedUnion('kind', tablesOf(sources))
  .refine((source) => !('address' in source) || source.address + countOf(source) <= 65_536, {
    path: ['address'],
    error: 'an address whose last register is at most 65535: a 32-bit type takes 2 registers, a 64-bit type 4',
  })
  .refine((source) => !('table' in source) || !isBit(source.table) || source.type === 'u16', {
    path: ['type'],
    error: 'no type for a coil or a discrete input, which is 0 or 1',
  })
  .refine((source) => source.kind !== 'modbus-rtu' || source.unit !== 0, {
    path: ['unit'],
    error: 'a unit from 1 to 255, since no unit replies to the broadcast address 0',
  });

export type SourceSettings = SettingsOf<typeof sourceSchema>;

const number = () => z.number({ error: 'a number' });
const positive = () => number().positive('a number above 0');

const pointClass = () =>
  z
    .enum(['urgent', 'normal', 'bulk'])
    .default('normal')
    .describe(
      'Priority of the datapoints. "urgent" ones are sent immediately; if the queue is full, "bulk" ones are dropped before "normal" ones',
    );

/** How a reading is processed. */
const treatment = {
  pointer: text('a JSON pointer such as "/temperature"')
    .regex(/^\//, 'a JSON pointer such as "/temperature"')
    .optional()
    .meta({ description: 'JSON pointer to one value in a JSON reading', examples: ['/temperature'] }),
  scale: number()
    .optional()
    .meta({ description: 'A number is multiplied by this. Any other value is dropped', examples: [0.001] }),
  offset: number()
    .optional()
    .meta({ description: 'This is added to a number after scaling. Any other value is dropped', examples: [-40] }),
  deadband: positive()
    .optional()
    .meta({
      description:
        'A number is sent only if it differs from the last sent one by more than this; a text or state, if it changed',
      examples: [0.2],
    }),
  deadband_percent: positive()
    .optional()
    .meta({ description: 'Deadband in percent of the last sent value, instead of deadband', examples: [1] }),
  heartbeat: duration('1s', '7d')
    .optional()
    .meta({ description: 'With a deadband, a value is sent at least this often', examples: ['10m'] }),
  aggregate_window: duration('1s', '1d')
    .optional()
    .meta({ description: 'Sends one value per period of this length, which starts with a reading', examples: ['1m'] }),
  aggregate: z
    .enum(['mean', 'min', 'max', 'last'])
    .default('mean')
    .describe('How the readings of a period become one value'),
};

const outputSchema = z.strictObject({
  event: text().optional().describe('Event that gets the values as datapoints; either this or property'),
  property: text().optional().describe('Property that gets the latest value; either this or event'),
  priority: pointClass(),
  ...treatment,
});

/** The settings of an output. */
export const outputSettings = Object.keys(outputSchema.shape);

const polling = {
  every: duration('100ms', '1d')
    .optional()
    .meta({
      description:
        'Interval between readings; required, except for sources that send on their own: "mqtt", "serial", and ' +
        '"exec" with stream = true',
      examples: ['10s'],
    }),
  timeout: duration('100ms', '1h')
    .default('10s')
    .describe(
      'Time limit of one reading. On a line or connection that sources share, it starts with the turn of this source',
    ),
  ignore: z
    .array(number())
    .max(100)
    .default([])
    .meta({
      description: 'Raw values that mean "no measurement" and are not sent, compared before scale and offset',
      examples: [[32_768]],
    }),
  source: sourceSchema.describe('Where the readings come from'),
};

/** True for a push source. */
export function isPushed(source: Written<typeof sourceSchema>): boolean {
  return withName(sources, source.kind).speaks(source);
}

/** True if a source that is read at intervals has one. */
function hasInterval({ every, source }: { every?: unknown; source: Written<typeof sourceSchema> }): boolean {
  return every !== undefined || isPushed(source);
}

const interval = { path: ['every'], error: 'a duration such as "10s", since this source is read at intervals' };

export const sensorSchema = z
  .strictObject({
    event: text()
      .optional()
      .meta({
        description: 'Event that gets the readings as datapoints; without it, set outputs',
        examples: ['temperature'],
      }),
    priority: pointClass(),
    ...treatment,
    ...polling,
    outputs: z
      .array(outputSchema)
      .max(100)
      .default([])
      .describe('Further events and properties that get values from the same source'),
  })
  .refine(hasInterval, interval);

export const propertySchema = z
  .strictObject({ id: text().describe('ID of the property at the service'), ...treatment, ...polling })
  .refine(hasInterval, interval);

export const watchSchema = z.strictObject({
  id: text().describe('ID of the property at the service'),
  every: duration('1s', '1d').describe('Interval between two queries'),
  output: z
    .discriminatedUnion('kind', [
      z.strictObject({
        kind: z.literal('command'),
        command: command().describe('Program that gets the value as JSON on its standard input'),
        user: user(),
        timeout: duration('1s', '1h').default('1m').describe('Time limit of the program'),
      }),
      z.strictObject({
        kind: z.literal('file'),
        path: absolutePath('/run/level', 'written file').describe(
          'File that contains the latest value as JSON. Only root and the agent may write in its directory',
        ),
      }),
      z.strictObject({
        kind: z.literal('mqtt'),
        url: address(['mqtt', 'mqtts']).describe('Address of the MQTT broker'),
        ...brokerLogin,
        topic: topic().describe('Topic of the retained message with the value as JSON'),
      }),
    ])
    .describe('Where the agent writes the value of the property when it has changed'),
});

type Written<T extends z.ZodType> = z.output<T>;

export { countOf, isBit, telemetrySchema };

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
