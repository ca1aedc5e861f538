import * as z from 'zod';

import { byteSize, duration, text, wholeNumber } from '../../system/settings/values.ts';
import type { DurationText } from '../../system/settings/values.ts';

const classBounds = (age: DurationText, bytes: number) =>
  z
    .strictObject({
      max_age: duration('1m', '3650d').default(age).describe('Older datapoints are dropped'),
      max_bytes: wholeNumber(0, 2 ** 40)
        .default(bytes)
        .describe('Maximum size on disk, in bytes'),
    })
    .prefault({})
    .describe('Limits of the queued datapoints of this priority');

const MEBIBYTE = 1024 * 1024;

export const telemetrySchema = z.strictObject({
  gather: duration('0s', '1h')
    .default('1s')
    .describe('New datapoints of an event are collected for this time and sent in one request'),
  write_interval: duration('100ms', '1h')
    .default('10s')
    .describe(
      'Datapoints that the service has not accepted for this time are written to disk. A power loss can lose the others',
    ),
  write_points: wholeNumber(1, 100_000)
    .default(500)
    .describe('Number of datapoints in memory that are written to disk earlier'),
  memory_points: wholeNumber(10, 100_000).default(10_000).describe('Maximum number of datapoints in memory'),
  batch_points: wholeNumber(1, 10_000).default(500).describe('Maximum number of datapoints in one request'),
  max_bytes: wholeNumber(4_096, 2 ** 40)
    .default(64 * MEBIBYTE)
    .describe(
      'Maximum size of the queue on disk, in bytes. Above it, the oldest datapoints of the lowest priority are dropped',
    ),
  urgent: classBounds('365d', 32 * MEBIBYTE),
  normal: classBounds('30d', 64 * MEBIBYTE),
  bulk: classBounds('7d', 64 * MEBIBYTE),
  min_free_bytes: wholeNumber(0, 2 ** 40)
    .default(16 * MEBIBYTE)
    .describe(
      'Bytes that stay free on the file system of the queue. With less, new datapoints stay in memory; half of these bytes are for those in memory when the agent stops or reads a new configuration',
    ),
  flash_bytes_per_day: wholeNumber(MEBIBYTE, 2 ** 40)
    .default(250 * MEBIBYTE)
    .describe(
      'Number of bytes that may be written in a day, to reduce flash wear. Above it, the queue is written when the memory is almost full. Urgent datapoints and programs that wait may cause as many bytes again, spread over the day; a program that sends more is refused. agent queue sync always writes',
    ),
  backlog_points_per_second: wholeNumber(1, 1_000_000)
    .default(1_000)
    .describe('Maximum rate at which queued datapoints are sent'),
  source_points_per_second: wholeNumber(1, 10_000)
    .default(200)
    .describe('Maximum rate of each source that sends on its own. Readings above it are dropped and counted'),
  source_bytes_per_second: byteSize('1KiB', '64MiB')
    .default('256KiB')
    .describe('Maximum rate of such a source in bytes'),
  report: z
    .strictObject({
      every: duration('10s', '1d').default('5m').describe('Interval between two checks for changes'),
      installed: text().optional().describe('ID of the property for the installed version'),
      slot: text().optional().describe('ID of the property for the running slot'),
      outcome: text().optional().describe('ID of the property for the result of the last update attempt'),
      reason: text().optional().describe('ID of the property for the reason of this result'),
      uptime: text().optional().describe('ID of the property for the uptime in seconds'),
      figures: text().optional().describe('ID of the property for statistics of the agent, as JSON'),
    })
    .prefault({})
    .meta({
      description: 'IDs of the properties in which the agent reports its own state; by default, none',
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
