import { AgentError } from '../system/errors.ts';
import type { ExitKind, Remedy } from '../system/errors.ts';

/** Every code of this error, with what waiting can do about it and what a person can do. */
const known = {
  'spool-damaged': ['retry', 'disk', 'nothing: what can be salvaged is; if it happens again, replace the medium'],
  'spool-full': ['retry', 'disk', 'make room on the file system of paths.state'],
  'spool-unwritable': ['retry', 'disk', 'check the file system of paths.state and its permissions'],
  'point-not-durable': [
    'retry',
    'tryAgain',
    'the agent keeps it in memory and delivers it if it is not stopped before',
  ],
  'point-dropped': ['retry', 'tryAgain', 'send less, or raise the bounds in [telemetry]'],
  'point-refused': ['give-up', 'failed', 'compare the value with what the service accepts for this event'],
  'value-unusable': ['give-up', 'usage', 'give a value that JSON can express, and a shorter one if it is long'],
  'time-unusable': ['give-up', 'usage', 'give an ISO 8601 time between 2000 and 2100, in UTC, with a trailing Z'],
  'too-many-names': ['give-up', 'refused', 'use fewer different events or properties'],
  'source-failed': ['retry', 'failed', 'check the source in [[sensors]] and the device behind it'],
  'source-timeout': ['retry', 'failed', 'raise the source’s timeout, or check the device behind it'],
  'source-unusable': ['give-up', 'configuration', 'check the source in [[sensors]]'],
} as const satisfies Record<string, readonly [Remedy, ExitKind, string]>;

export type TelemetryErrorCode = keyof typeof known;

/** A measurement cannot be taken, kept or delivered. */
export class TelemetryError extends AgentError {
  override readonly name = 'TelemetryError';
  declare readonly code: TelemetryErrorCode;

  constructor(code: TelemetryErrorCode, message: string, cause?: unknown) {
    const [remedy, exit, advice] = known[code];
    super({ code, message, remedy, exit, advice, cause });
  }
}
