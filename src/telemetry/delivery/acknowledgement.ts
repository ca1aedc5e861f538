import { abortable } from '../../system/abortable.ts';
import type { Clock } from '../../system/time/clock.ts';
import { TelemetryError } from '../errors.ts';

/** The location of a safe value: on the disk here, or at the service. */
export type AcknowledgedBy = 'disk' | 'service';

/** Lets a caller wait until datapoints are durable or delivered. */
export class Acknowledgement {
  readonly #settled = Promise.withResolvers<AcknowledgedBy>();
  #waiting: number;
  #place: AcknowledgedBy = 'service';

  constructor(points: number) {
    this.#waiting = points;
    this.#settled.promise.catch(() => {}); // the caller may no longer wait
    if (points === 0) this.#settled.resolve(this.#place);
  }

  /**
   * Resolves when all datapoints are safe: with `service` if the service has them all, else with `disk`. Rejects with
   * TelemetryError when a datapoint is lost.
   */
  get settled(): Promise<AcknowledgedBy> {
    return this.#settled.promise;
  }

  /** One of the datapoints is safe. */
  safe(place: AcknowledgedBy): void {
    this.#waiting -= 1;
    if (place === 'disk') this.#place = place;
    if (this.#waiting === 0) this.#settled.resolve(this.#place);
  }

  lost(why: Error): void {
    this.#settled.reject(why);
  }

  /** A newer value has replaced this one, which is as safe as that. */
  follow(newer: Acknowledgement): void {
    this.#settled.resolve(newer.settled);
  }
}

/** Invariant 6: the longest wait until a value is safe, if the disk fails and the service does not respond. */
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
