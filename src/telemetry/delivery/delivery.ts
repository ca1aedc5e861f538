import type { DeliveryStats } from '../../control/telemetry-protocol.ts';
import { describeError } from '../../system/errors.ts';
import { JsonText } from '../../system/json-value.ts';
import type { Log } from '../../system/log/log.ts';
import type { Clock } from '../../system/time/clock.ts';
import type { ValueService } from '../ports.ts';
import type { Batch, Lane, TimedPoint } from '../queue/batch.ts';
import type { DatapointQueue } from '../queue/queue.ts';
import type { Stream } from '../queue/streams.ts';
import { CircuitBreaker } from './circuit-breaker.ts';
import { classifyFailure } from './classify-failure.ts';
import type { FailureClass } from './classify-failure.ts';

export interface DeliveryDeps {
  readonly queue: DatapointQueue;
  readonly service: Pick<ValueService, 'postDatapoints' | 'setProperty'>;
  readonly clock: Clock;
  /** 0 ≤ random() < 1 */
  readonly random: () => number;
  readonly log: Log;
  /** The most datapoints in one request. */
  readonly batchPoints: number;
  /** Live datapoints of an event are gathered for this time, unless they are urgent. */
  readonly gatherMs: number;
  readonly backlogPointsPerSecond: number;
  /** While this is true the backlog waits, since the connection belongs to an update. */
  readonly isLineTaken: () => boolean;
}

/** The interval at which the backlog checks whether the update still has the connection. */
const CHECK_MS = 1_000;
const SUSPENDED_MS = 5 * 60_000;
/** The bound for one request. */
const MAX_REQUEST_BYTES = 256 * 1024;
/** `{"value":,"at":"2027-01-01T00:00:00.000Z"},` */
const POINT_FRAME_BYTES = 48;
/** After this number of refused datapoints without an accepted one, the datapoints are not the cause. */
const MAX_REFUSALS_IN_A_ROW = 20;

type Slice = readonly TimedPoint[];

/**
 * Delivers the queue to the service: live datapoints, the backlog and properties, each in a loop of its own. A request
 * that is repeated is identical, byte for byte.
 */
export class Delivery {
  readonly #deps: DeliveryDeps;
  readonly #breaker: CircuitBreaker;
  /** Events and properties that the service does not accept now, and when each is tried again. */
  readonly #suspendedUntilMs = new Map<Stream, number>();
  /** Learned from a service that finds requests too large. */
  #maxPoints = Number.POSITIVE_INFINITY;
  /** Figures of datapoints, without properties. */
  readonly #counts = { delivered: 0, requests: 0, failedRequests: 0, resent: 0 };

  constructor(deps: DeliveryDeps) {
    this.#deps = deps;
    this.#breaker = new CircuitBreaker(deps);
  }

  /** Delivers until the signal is aborted. An empty queue has no timer. */
  async run(signal: AbortSignal): Promise<void> {
    const { queue, clock, gatherMs } = this.#deps;
    const runLane = async (lane: Lane): Promise<void> => {
      while (!signal.aborted) {
        await this.deliver(lane, signal);
        await queue.arrival[lane].wait(this.#restMs, clock, signal);
        if (lane === 'live') await queue.arrival.urgent.wait(gatherMs, clock, signal);
      }
    };
    await Promise.all([runLane('live'), runLane('backlog'), runLane('property')]);
  }

  /** Immediately retries suspended events and properties, and requests that the circuit breaker defers. */
  tryAgain(): void {
    const { live, backlog, property } = this.#deps.queue.arrival;
    this.#breaker.recordSuccess();
    this.#suspendedUntilMs.clear();
    for (const wakeup of [live, backlog, property]) wakeup.notify();
  }

  /** Delivers all that is in this lane now; the backlog at the configured pace. */
  async deliver(lane: Lane, signal: AbortSignal): Promise<void> {
    const { queue, clock, backlogPointsPerSecond, isLineTaken } = this.#deps;
    const pointsPerSecond = lane === 'backlog' ? backlogPointsPerSecond : Number.POSITIVE_INFINITY;
    const mustWait = (): boolean => lane === 'backlog' && queue.hasBacklog && isLineTaken();
    for (;;) {
      while (mustWait()) await clock.sleep(CHECK_MS, signal);
      const startedMs = clock.monotonicMs();
      const points = await this.#deliverNext(lane, signal);
      if (points === 0) return;
      const pauseMs = (points / pointsPerSecond) * 1_000 - (clock.monotonicMs() - startedMs);
      if (pauseMs > 0) await clock.sleep(pauseMs, signal);
    }
  }

  figures(): DeliveryStats {
    const events = [...this.#suspended].filter(({ kind }) => kind === 'event');
    return { ...this.#counts, suspendedEvents: events.map(({ name }) => name), error: this.#breaker.reason };
  }

  get #restMs(): number {
    const firstMs = Math.min(...this.#suspendedUntilMs.values());
    return Math.max(0, firstMs - this.#deps.clock.monotonicMs()) + 1;
  }

  get #suspended(): ReadonlySet<Stream> {
    const nowMs = this.#deps.clock.monotonicMs();
    for (const [stream, untilMs] of this.#suspendedUntilMs) if (untilMs <= nowMs) this.#suspendedUntilMs.delete(stream);
    return new Set(this.#suspendedUntilMs.keys());
  }

  /** Delivers the next batch. Returns the number of its datapoints, 0 if there is nothing to deliver. */
  async #deliverNext(lane: Lane, signal: AbortSignal): Promise<number> {
    const { queue, clock, batchPoints } = this.#deps;
    const limit = lane === 'property' ? 1 : batchPoints;
    const batch = queue.take(lane, limit, this.#suspended);
    if (batch === undefined) return 0;
    try {
      if (!(await this.#deliverBatch(batch, signal)))
        this.#suspendedUntilMs.set(batch.stream, clock.monotonicMs() + SUSPENDED_MS);
      return batch.points.length;
    } finally {
      queue.release(batch);
    }
  }

  /** Delivers a batch slice by slice, in order. Returns false if the rest has to wait, and others can continue. */
  async #deliverBatch(batch: Batch, signal: AbortSignal): Promise<boolean> {
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
        return false;
      } else if (slice.length > 1) {
        const half = slice.length >> 1;
        if (result.kind === 'split') this.#maxPoints = half;
        slices.push(slice.slice(half), slice.slice(0, half));
      } else if (kind === 'property') {
        log.warn({ property: name, reason: result.reason }, 'the service refuses the value of a property; discarded');
        queue.accepted(batch, 1);
      } else {
        refusals += 1;
        if (refusals > MAX_REFUSALS_IN_A_ROW) return false;
        log.warn({ event: name, reason: result.reason }, 'the service refuses a datapoint; it becomes a dead letter');
        queue.refused(batch, result.reason);
      }
    }
    return true;
  }

  /** Sends these datapoints until the service has responded. */
  async #send(
    { kind, name }: Stream,
    slice: Slice,
    signal: AbortSignal,
  ): Promise<'accepted' | Exclude<FailureClass, { kind: 'wait' }>> {
    const { service, log } = this.#deps;
    const body = new JsonText(kind === 'event' ? bodyOf(slice) : (slice[0]?.text ?? 'null'));
    for (;;) {
      const pass = await this.#breaker.acquire(signal);
      try {
        await (kind === 'event' ? service.postDatapoints(name, body, signal) : service.setProperty(name, body, signal));
        this.#breaker.recordSuccess();
        this.#maxPoints += Math.max(1, Math.floor(this.#maxPoints / 50));
        if (kind === 'event') this.#count(slice, 'delivered');
        return 'accepted';
      } catch (error) {
        signal.throwIfAborted();
        const failure = classifyFailure(error);
        if (kind === 'event') this.#count(slice, 'resent');
        if (failure.kind !== 'wait') {
          this.#breaker.recordSuccess();
          return failure;
        }
        log.debug({ [kind]: name, error: describeError(error) }, 'values could not be delivered');
        this.#breaker.recordFailure(pass, failure.reason, failure.retryAfterMs);
      }
    }
  }

  #count({ length }: Slice, end: 'delivered' | 'resent'): void {
    this.#counts.requests += 1;
    this.#counts[end] += length;
    if (end === 'resent') this.#counts.failedRequests += 1;
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
