import * as z from 'zod';

import {
  absolutePath,
  address,
  byteSize,
  command,
  duration,
  flag,
  text,
  user,
  wholeNumber,
} from '../../system/settings/values.ts';
import type { DurationText } from '../../system/settings/values.ts';

const every = () => duration('100ms', '1d');
const number = () => z.number({ error: 'a number' });
const positive = () => number().positive('a number above 0');
const port = () => wholeNumber(1, 65_535);

const mqtt = {
  url: address(['mqtt', 'mqtts']),
  username: text().optional(),
  password_file: absolutePath('/etc/thing-agent/mqtt-password').optional(),
};

const register = {
  unit: wholeNumber(0, 255).default(1),
  table: z.enum(['holding', 'input', 'coil', 'discrete-input']).default('holding'),
  address: wholeNumber(0, 65_535).describe('Counted from 0, as it is sent'),
  type: z.enum(['u16', 'i16', 'u32', 'i32', 'f32', 'u64', 'i64', 'f64']).default('u16'),
  byte_order: z.enum(['big', 'little']).default('big'),
  word_order: z.enum(['big', 'little']).default('big'),
};

const silence = () => duration('1s', '7d').optional();
const baud = () => wholeNumber(50, 4_000_000);

const sourceSchema = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('exec'),
    command: command(),
    user: user(),
    stream: flag().default(false).describe('It keeps running and prints a reading per line'),
    silence: silence().describe('After this without a line it is started again'),
  }),
  z.strictObject({
    kind: z.literal('mqtt'),
    ...mqtt,
    topic: text().describe('With + and #'),
    silence: silence().describe('After this without a message it counts as failing'),
  }),
  z.strictObject({ kind: z.literal('modbus-tcp'), host: text(), port: port().default(502), ...register }),
  z.strictObject({
    kind: z.literal('modbus-rtu'),
    port: absolutePath('/dev/ttyUSB0'),
    baud: baud().default(9_600),
    parity: z.enum(['none', 'even']).default('even'),
    ...register,
  }),
  z.strictObject({ kind: z.literal('hwmon'), chip: text(), input: text() }),
  z.strictObject({ kind: z.literal('thermal'), zone: text() }),
  z.strictObject({ kind: z.literal('iio'), device: text(), channel: text() }),
  z.strictObject({ kind: z.literal('w1'), device: text() }),
  z.strictObject({
    kind: z.literal('serial'),
    port: absolutePath('/dev/ttyUSB0'),
    baud: baud().default(115_200),
    pattern: text().refine(isPattern, 'a regular expression').optional(),
    silence: duration('1s', '1d').default('5m').describe('After this the port is opened again'),
  }),
  z.strictObject({
    kind: z.literal('gpio'),
    chip: text(),
    line: wholeNumber(0, 4_095),
    version: z.literal([1, 2], { error: '1 or 2' }).default(1).describe('Of libgpiod’s tools'),
  }),
  z.strictObject({ kind: z.literal('file'), path: absolutePath('/run/level') }),
  z.strictObject({
    kind: z.literal('system'),
    metric: z.enum([
      'load1',
      'memory_used_percent',
      'memory_available_bytes',
      'disk_used_percent',
      'disk_free_bytes',
      'network_received_bytes',
      'network_sent_bytes',
      'cpu_temperature',
      'uptime',
      'throttled',
      'agent_memory_bytes',
      'agent',
    ]),
  }),
]);

function isPattern(value: string): boolean {
  try {
    return new RegExp(value) instanceof RegExp;
  } catch (error) {
    if (error instanceof SyntaxError) return false;
    throw error;
  }
}

const pointClass = () => z.enum(['urgent', 'normal', 'bulk']);

/** What becomes of a reading. */
const treatment = {
  pointer: text('a JSON pointer such as "/temperature"')
    .regex(/^\//, 'a JSON pointer such as "/temperature"')
    .optional(),
  scale: number().default(1),
  offset: number().default(0),
  deadband: positive().optional().describe('A change that is not larger is not sent'),
  deadband_percent: positive().optional(),
  heartbeat: duration('1s', '7d').optional().describe('Sent at least so often'),
  over: duration('1s', '1d').optional().describe('One value for each such period'),
  keep: z.enum(['mean', 'min', 'max', 'last']).default('mean'),
};

const outputSchema = z.strictObject({
  event: text().optional(),
  property: text().optional(),
  class: pointClass().default('normal'),
  ...treatment,
});

const polling = { every: every(), timeout: duration('100ms', '1h').default('10s'), source: sourceSchema };

export const sensorSchema = z.strictObject({
  event: text().optional(),
  class: pointClass().default('normal'),
  ...treatment,
  ...polling,
  outputs: z.array(outputSchema).max(100).default([]).describe('Several events and properties from one source'),
});

export const propertySchema = z.strictObject({ id: text(), ...treatment, ...polling });

export const watchSchema = z.strictObject({
  id: text(),
  every: duration('1s', '1d'),
  into: z
    .discriminatedUnion('kind', [
      z.strictObject({
        kind: z.literal('command'),
        command: command(),
        user: user(),
        timeout: duration('1s', '1h').default('1m'),
      }),
      z.strictObject({ kind: z.literal('file'), path: absolutePath('/run/level') }),
      z.strictObject({ kind: z.literal('mqtt'), ...mqtt, topic: text() }),
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
  group: duration('100ms', '1h').default('10s').describe('Points wait in memory for so long before they are written'),
  group_points: wholeNumber(1, 100_000).default(500),
  memory_points: wholeNumber(10, 100_000).default(10_000),
  max_bytes: wholeNumber(4_096, 2 ** 40)
    .default(64 * MEBIBYTE)
    .describe('Of all points on disk'),
  urgent: classBounds('365d', 32 * MEBIBYTE),
  normal: classBounds('30d', 64 * MEBIBYTE),
  bulk: classBounds('7d', 64 * MEBIBYTE),
  reserve_bytes: wholeNumber(0, 2 ** 40)
    .default(16 * MEBIBYTE)
    .describe('Left free on that file system'),
  flash_bytes_per_day: wholeNumber(MEBIBYTE, 2 ** 40).default(250 * MEBIBYTE),
  batch_points: wholeNumber(1, 10_000).default(500),
  gather: duration('0s', '1h').default('1s').describe('Live points of an event are gathered for so long'),
  backlog_points_per_second: wholeNumber(1, 1_000_000).default(1_000),
  source_points_per_second: wholeNumber(1, 10_000)
    .default(200)
    .describe('Of each source that speaks by itself; what is over it is dropped and counted'),
  source_bytes_per_second: byteSize('1KiB', '64MiB')
    .default('256KiB')
    .describe('Read of each source that speaks by itself'),
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
    .describe('Properties in which the agent tells about itself'),
});
