import { describeError } from '../../system/errors.ts';
import { JsonText } from '../../system/json-value.ts';
import type { Log } from '../../system/log/log.ts';
import type { ValueService } from '../ports.ts';
import type { Batch, TimedPoint } from '../queue/batch.ts';
import type { DatapointQueue } from '../queue/queue.ts';
import type { Stream } from '../queue/streams.ts';
import type { CircuitBreaker } from './circuit-breaker.ts';
import { classifyFailure } from './classify-failure.ts';
import type { FailureClass } from './classify-failure.ts';

/** The bound for one request. */
const MAX_REQUEST_BYTES = 256 * 1024;
/** `{"value":,"at":"2027-01-01T00:00:00.000Z"},` */
const POINT_FRAME_BYTES = 48;
/** After this number of refused datapoints without an accepted one, the datapoints are not the cause. */
const MAX_REFUSALS_IN_A_ROW = 20;

export interface SenderDeps {
  readonly service: Pick<ValueService, 'postDatapoints' | 'setProperty'>;
  readonly queue: Pick<DatapointQueue, 'accepted' | 'refused'>;
  readonly breaker: CircuitBreaker;
  readonly log: Log;
  /** Called after each request with datapoints. */
  readonly onPost: (points: number, isAccepted: boolean) => void;
}

type Slice = readonly TimedPoint[];

/**
 * Delivers one batch to the service in as many requests as needed. A request that is repeated is identical, byte for
 * byte.
 */
export class Sender {
  readonly #deps: SenderDeps;
  /** Learned from a service that finds requests too large. */
  #maxPoints = Number.POSITIVE_INFINITY;

  constructor(deps: SenderDeps) {
    this.#deps = deps;
  }

  /**
   * Delivers a batch slice by slice, in order. `suspended`: the rest has to wait, and others can continue. Returns only
   * when the service has responded.
   */
  async deliver(batch: Batch, signal: AbortSignal): Promise<'delivered' | 'suspended'> {
    const { queue, log } = this.#deps;
    const { kind, name } = batch.stream;
    const slices = this.#cut(batch.points).toReversed();
    let refusals = 0;
    for (let slice = slices.pop(); slice !== undefined; slice = slices.pop()) {
      const result = await this.#send(batch.stream, slice, signal);
      if (result === 'accepted') {
        queue.accepted(batch, slice.length);
        refusals = 0;
      } else if (result.kind === 'unknown') {
        log.warn({ [kind]: name, reason: result.reason }, `the service does not know this ${kind}; its values wait`);
        return 'suspended';
      } else if (slice.length > 1) {
        const half = slice.length >> 1;
        if (result.kind === 'split') this.#maxPoints = half;
        slices.push(slice.slice(half), slice.slice(0, half));
      } else if (kind === 'property') {
        log.warn({ property: name, reason: result.reason }, 'the service refuses the value of a property; discarded');
        queue.accepted(batch, 1);
      } else {
        refusals += 1;
        if (refusals > MAX_REFUSALS_IN_A_ROW) return 'suspended';
        log.warn({ event: name, reason: result.reason }, 'the service refuses a datapoint; it becomes a dead letter');
        queue.refused(batch, result.reason);
      }
    }
    return 'delivered';
  }

  /** Sends these datapoints until the service has responded. */
  async #send(
    { kind, name }: Stream,
    slice: Slice,
    signal: AbortSignal,
  ): Promise<'accepted' | Exclude<FailureClass, { kind: 'wait' }>> {
    const { service, breaker } = this.#deps;
    const body = new JsonText(kind === 'event' ? bodyOf(slice) : (slice[0]?.text ?? 'null'));
    for (;;) {
      const pass = await breaker.acquire(signal);
      try {
        await (kind === 'event' ? service.postDatapoints(name, body, signal) : service.setProperty(name, body, signal));
        breaker.recordSuccess();
        this.#maxPoints += Math.max(1, Math.floor(this.#maxPoints / 50));
        this.#note(kind, slice, true);
        return 'accepted';
      } catch (error) {
        signal.throwIfAborted();
        const failure = classifyFailure(error);
        this.#note(kind, slice, false);
        if (failure.kind !== 'wait') {
          breaker.recordSuccess();
          return failure;
        }
        this.#deps.log.debug({ [kind]: name, error: describeError(error) }, 'values could not be delivered');
        breaker.recordFailure(pass, failure.reason, failure.retryAfterMs);
      }
    }
  }

  #note(kind: Stream['kind'], { length }: Slice, isAccepted: boolean): void {
    if (kind === 'event') this.#deps.onPost(length, isAccepted);
  }

  #cut(points: Slice): Slice[] {
    const slices: TimedPoint[][] = [];
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
}

function bodyOf(slice: Slice): string {
  const points = slice.map(({ text, atMs }) => `{"value":${text},"at":"${new Date(atMs).toISOString()}"}`);
  return `[${points.join(',')}]`;
}
