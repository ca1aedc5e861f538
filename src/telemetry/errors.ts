import { defineErrors } from '../system/define-errors.ts';
import type { CodeOf } from '../system/define-errors.ts';
import { sharedErrors } from '../system/shared-errors.ts';

const TelemetryErrors = defineErrors('TelemetryError', {
  'spool-damaged': {
    remedy: 'retry',
    exit: 'disk',
    means: 'The database of waiting datapoints is damaged.',
    advice: 'nothing: what can be salvaged is; if it happens again, replace the medium',
  },
  'spool-full': {
    remedy: 'retry',
    exit: 'disk',
    means: 'The file system of the spool has no room left.',
    advice: 'make room on the file system of paths.state',
  },
  'spool-unwritable': {
    remedy: 'retry',
    exit: 'disk',
    means: 'The spool cannot be written.',
    advice: 'check the file system of paths.state and its permissions',
  },
  'point-not-durable': {
    remedy: 'retry',
    exit: 'tryAgain',
    means: 'A datapoint could be neither stored nor delivered in the time that its sender waits.',
    advice: 'the agent keeps it in memory and delivers it if it is not stopped before',
  },
  'point-dropped': {
    remedy: 'retry',
    exit: 'tryAgain',
    means: 'A datapoint was dropped, because more came than the bounds of [telemetry] let wait.',
    advice: 'send less, or raise the bounds in [telemetry]',
  },
  'point-refused': {
    remedy: 'give-up',
    exit: 'failed',
    means: 'The service refuses a datapoint, and would refuse it again.',
    advice: 'compare the value with what the service accepts for this event',
  },
  'value-unusable': sharedErrors['value-unusable'],
  'time-unusable': {
    remedy: 'give-up',
    exit: 'usage',
    means: 'The time of a datapoint cannot be used.',
    advice: 'give an ISO 8601 time between 2000 and 2100, in UTC, with a trailing Z',
  },
  'too-many-names': {
    remedy: 'give-up',
    exit: 'refused',
    means: 'More different events or properties were used than a gateway can have.',
    advice: 'use fewer different events or properties',
  },
  'source-failed': {
    remedy: 'retry',
    exit: 'failed',
    means: 'A source of measurements failed.',
    advice: 'check the source in [[sensors]] and the device behind it',
  },
  'source-timeout': {
    remedy: 'retry',
    exit: 'failed',
    means: 'A source of measurements did not answer in time.',
    advice: 'raise the source’s timeout, or check the device behind it',
  },
  'source-not-asked': {
    remedy: 'give-up',
    exit: 'usage',
    means: 'A source of measurements speaks by itself, and cannot be asked.',
    advice: 'agent sensors NAME shows what it said last',
  },
  'source-unusable': {
    remedy: 'give-up',
    exit: 'configuration',
    means: 'A source of measurements is configured in a way that cannot work.',
    advice: 'check the source in [[sensors]]',
  },
});

export type TelemetryErrorCode = CodeOf<typeof TelemetryErrors>;

/** A measurement cannot be taken, kept or delivered. */
export class TelemetryError extends TelemetryErrors {
  /** `advice` replaces the advice of the code. */
  constructor(code: TelemetryErrorCode, message: string, cause?: unknown, advice?: string) {
    super(code, message, { cause, advice });
  }
}
