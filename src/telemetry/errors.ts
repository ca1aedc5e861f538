import { defineErrors, permanent, transient } from '../system/define-errors.ts';
import type { CodeOf } from '../system/define-errors.ts';
import { sharedErrors } from '../system/shared-errors.ts';

const TelemetryErrors = defineErrors('TelemetryError', {
  'queue-damaged': transient.disk(
    'The database of queued datapoints is damaged.',
    'nothing: the agent saves the readable datapoints; if it happens again, replace the medium',
  ),
  'queue-full': transient.disk(
    'The file system of the queue has no space left.',
    'make space on the file system of paths.state',
  ),
  'queue-unwritable': transient.disk(
    'The queue cannot be written.',
    'check the file system of paths.state and its permissions',
  ),
  'point-not-durable': transient.tryAgain(
    'A datapoint could be neither stored nor delivered in the time that its sender waits.',
    'the agent keeps it in memory and delivers it if it is not stopped before',
  ),
  'point-dropped': transient.tryAgain(
    'A datapoint was dropped, because the queue reached the limits in [telemetry].',
    'send less, or raise the limits in [telemetry]',
  ),
  'point-refused': permanent.failed(
    'The service refuses a datapoint, and would refuse it again.',
    'compare the value with the values that the service accepts for this event',
  ),
  'value-invalid': sharedErrors['value-invalid'],
  'time-invalid': permanent.usage(
    'The time of a datapoint cannot be used.',
    'give an ISO 8601 time between 2000 and 2100, in UTC, with a trailing Z',
  ),
  'too-many-names': permanent.refused(
    'More events or properties have waiting values than a gateway can keep.',
    'use fewer different events or properties',
  ),
  'source-failed': transient.failed(
    'A source of measurements failed.',
    'check the source in [[sensors]] and the device behind it',
  ),
  'source-timeout': transient.failed(
    'A source of measurements timed out.',
    'raise the source’s timeout, or check the device behind it',
  ),
  'source-not-pollable': permanent.usage(
    'A push source sends its own readings, and cannot be polled.',
    'agent sensors NAME shows its last reading',
  ),
  'source-unavailable': permanent.configuration(
    'A source of measurements is configured in a way that cannot work.',
    'check the source in [[sensors]]',
  ),
});

export type TelemetryErrorCode = CodeOf<typeof TelemetryErrors>;

/** A measurement cannot be taken, kept or delivered. */
export class TelemetryError extends TelemetryErrors {
  /** `advice` replaces the advice of the code. */
  constructor(code: TelemetryErrorCode, message: string, cause?: unknown, advice?: string) {
    super(code, message, { cause, advice });
  }
}
