import { describeError } from '../../system/errors.ts';
import { parseExactly } from '../../system/json-value.ts';
import type { Log } from '../../system/log/log.ts';
import type { Clock } from '../../system/time/clock.ts';
import type { ValueService } from '../ports.ts';
import type { Batch, SpooledPoint } from '../queue/batch.ts';
import type { DatapointQueue } from '../queue/spool.ts';
import type { CircuitBreaker } from './circuit-breaker.ts';
import { classifyFailure } from './classify-failure.ts';
import type { FailureClass } from './classify-failure.ts';

/** The bound for one request. */
const MAX_REQUEST_BYTES = 256 * 1024;
/** `{"value":,"at":"2027-01-01T00:00:00.000Z"},` */
const POINT_FRAME_BYTES = 48;
/** After so many refused points without an accepted one, the points are not to blame. */
const MAX_REFUSALS_IN_A_ROW = 20;

export interface CourierDeps {
  readonly service: Pick<ValueService, 'postDatapoints'>;
  readonly spool: Pick<DatapointQueue, 'accepted' | 'refused'>;
  readonly gate: CircuitBreaker;
  readonly clock: Clock;
  readonly log: Log;
  readonly onPost: (points: number, isAccepted: boolean) => void;
}

type Slice = readonly SpooledPoint[];

/**
 * Delivers one batch to the service in as many requests as needed. A request that is repeated is identical, byte for
 * byte.
 */
export class DatapointSender {
  readonly #deps: CourierDeps;
  /** Learned from a service that finds requests too large. */
  #maxPoints = Number.POSITIVE_INFINITY;

  constructor(deps: CourierDeps) {
    this.#deps = deps;
  }

  /**
   * Delivers a batch slice by slice, in order. `parked`: the rest has to wait, and other events can continue. Returns
   * only when the service has answered.
   */
  async deliver(batch: Batch, signal: AbortSignal): Promise<'delivered' | 'parked'> {
    const { spool, log } = this.#deps;
    const slices = this.#cut(batch.points).toReversed();
    let refusals = 0;
    for (let slice = slices.pop(); slice !== undefined; slice = slices.pop()) {
      const verdict = await this.#post(batch.event, slice, signal);
      if (verdict === 'accepted') {
        spool.accepted(batch, slice.length);
        refusals = 0;
      } else if (verdict.kind === 'unknown') {
        log.warn(
          { event: batch.event, reason: verdict.reason },
          'the service does not know this event; its points wait',
        );
        return 'parked';
      } else if (slice.length > 1) {
        const half = slice.length >> 1;
        if (verdict.kind === 'split') this.#maxPoints = half;
        slices.push(slice.slice(half), slice.slice(0, half));
      } else {
        refusals += 1;
        if (refusals > MAX_REFUSALS_IN_A_ROW) return 'parked';
        log.warn({ event: batch.event, reason: verdict.reason }, 'the service refuses a point; it is kept aside');
        spool.refused(batch, verdict.reason);
      }
    }
    return 'delivered';
  }

  /** Posts these points until the service has answered. */
  async #post(
    event: string,
    slice: Slice,
    signal: AbortSignal,
  ): Promise<'accepted' | Exclude<FailureClass, { kind: 'wait' }>> {
    const { service, gate, onPost } = this.#deps;
    const datapoints = slice.map(({ text, atMs }) => ({
      value: parseExactly(text),
      at: new Date(atMs).toISOString(),
    }));
    for (;;) {
      const pass = await gate.acquire(signal);
      try {
        await service.postDatapoints(event, datapoints, signal);
        gate.recordSuccess();
        this.#grow();
        onPost(slice.length, true);
        return 'accepted';
      } catch (error) {
        signal.throwIfAborted();
        const verdict = classifyFailure(error);
        onPost(slice.length, false);
        if (verdict.kind !== 'wait') {
          gate.recordSuccess();
          return verdict;
        }
        this.#deps.log.debug({ event, error: describeError(error) }, 'points could not be delivered');
        gate.recordFailure(pass, verdict.reason, verdict.retryAfterMs);
      }
    }
  }

  #cut(points: Slice): Slice[] {
    const slices: SpooledPoint[][] = [];
    let bytes = Number.POSITIVE_INFINITY;
    for (const point of points) {
      const size = Buffer.byteLength(point.text) + POINT_FRAME_BYTES;
      const last = slices.at(-1);
      if (last === undefined || bytes + size > MAX_REQUEST_BYTES || last.length >= this.#maxPoints) {
        slices.push([point]);
        bytes = size;
      } else {
        last.push(point);
        bytes += size;
      }
    }
    return slices;
  }

  #grow(): void {
    this.#maxPoints += Math.max(1, Math.floor(this.#maxPoints / 50));
  }
}
