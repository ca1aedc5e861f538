import { abortable } from '../../system/abortable.ts';
import type { Clock } from '../../system/time/clock.ts';
import { TelemetryError } from '../errors.ts';
import type { AcknowledgedBy } from './acknowledgement.ts';

/** Invariant 6: the longest wait until a value is safe, if the disk fails and the service is silent. */
const ACKNOWLEDGE_MS = 10_000;

export interface AckSource {
  readonly clock: Pick<Clock, 'sleep'>;
  readonly trouble: () => string | undefined;
}

/** Waits until a value is safe, and returns where. Throws TelemetryError `point-not-durable` if that takes too long. */
export async function waitForAck(
  settled: Promise<AcknowledgedBy>,
  { clock, trouble }: AckSource,
  signal: AbortSignal,
): Promise<AcknowledgedBy> {
  const enough = new AbortController();
  const late = async (): Promise<never> => {
    await clock.sleep(ACKNOWLEDGE_MS, AbortSignal.any([signal, enough.signal]));
    const why = trouble() ?? 'the disk is slow';
    throw new TelemetryError('point-not-durable', `it is neither on disk nor at the service yet: ${why}`);
  };
  try {
    return await Promise.race([abortable(settled, signal), late()]);
  } finally {
    enough.abort();
  }
}
