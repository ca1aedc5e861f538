import type { DeliveryStats } from '../../control/telemetry-protocol.ts';
import type { Log } from '../../system/log/log.ts';
import type { Clock } from '../../system/time/clock.ts';
import type { ValueService } from '../ports.ts';
import type { Lane } from '../queue/batch.ts';
import type { DatapointQueue } from '../queue/queue.ts';
import type { Stream } from '../queue/streams.ts';
import { CircuitBreaker } from './circuit-breaker.ts';
import { Sender } from './sender.ts';

export interface DeliveryDeps {
  readonly queue: DatapointQueue;
  readonly service: ValueService;
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

/** Delivers the queue to the service: live datapoints, the backlog and properties, each in a loop of its own. */
export class Delivery {
  readonly #deps: DeliveryDeps;
  readonly #breaker: CircuitBreaker;
  readonly #sender: Sender;
  /** Events and properties that the service does not accept now, and when each is tried again. */
  readonly #suspendedUntilMs = new Map<Stream, number>();
  #delivered = 0;
  #requests = 0;
  #failedRequests = 0;
  #resent = 0;

  constructor(deps: DeliveryDeps) {
    this.#deps = deps;
    this.#breaker = new CircuitBreaker(deps);
    const onPost = (points: number, isAccepted: boolean): void => this.#note(points, isAccepted);
    this.#sender = new Sender({ ...deps, breaker: this.#breaker, onPost });
  }

  /** Delivers until the signal is aborted. An empty queue has no timer. */
  async run(signal: AbortSignal): Promise<void> {
    const { queue, clock, gatherMs } = this.#deps;
    const { live, urgent, backlog, property } = queue.arrival;
    const untilAborted = async (work: () => Promise<void>): Promise<void> => {
      while (!signal.aborted) await work();
    };
    await Promise.all([
      untilAborted(async () => {
        await this.deliverLive(signal);
        await live.wait(this.#restMs, clock, signal);
        await urgent.wait(gatherMs, clock, signal);
      }),
      untilAborted(async () => {
        await this.deliverBacklog(signal);
        await backlog.wait(this.#restMs, clock, signal);
      }),
      untilAborted(async () => {
        await this.deliverProperties(signal);
        await property.wait(this.#restMs, clock, signal);
      }),
    ]);
  }

  /** Immediately retries suspended events and properties, and requests that the circuit breaker defers. */
  tryAgain(): void {
    const { live, backlog, property } = this.#deps.queue.arrival;
    this.#breaker.recordSuccess();
    this.#suspendedUntilMs.clear();
    for (const wakeup of [live, backlog, property]) wakeup.notify();
  }

  /** Delivers all live datapoints. */
  async deliverLive(signal: AbortSignal): Promise<void> {
    while ((await this.#deliverNext('live', signal)) > 0);
  }

  /** Delivers all that is on disk, at the configured pace. */
  async deliverBacklog(signal: AbortSignal): Promise<void> {
    const { queue, clock, backlogPointsPerSecond, isLineTaken } = this.#deps;
    for (;;) {
      while (queue.hasBacklog && isLineTaken()) await clock.sleep(CHECK_MS, signal);
      const startedMs = clock.monotonicMs();
      const points = await this.#deliverNext('backlog', signal);
      if (points === 0) return;
      const pauseMs = (points / backlogPointsPerSecond) * 1_000 - (clock.monotonicMs() - startedMs);
      if (pauseMs > 0) await clock.sleep(pauseMs, signal);
    }
  }

  async deliverProperties(signal: AbortSignal): Promise<void> {
    while ((await this.#deliverNext('property', signal)) > 0);
  }

  figures(): DeliveryStats {
    const suspended = [...this.#suspended];
    return {
      delivered: this.#delivered,
      requests: this.#requests,
      failedRequests: this.#failedRequests,
      resent: this.#resent,
      suspendedEvents: suspended.filter(({ kind }) => kind === 'event').map(({ name }) => name),
      error: this.#breaker.reason,
    };
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
      const end = await this.#sender.deliver(batch, signal);
      if (end === 'suspended') this.#suspendedUntilMs.set(batch.stream, clock.monotonicMs() + SUSPENDED_MS);
      return batch.points.length;
    } finally {
      queue.release(batch);
    }
  }

  #note(points: number, isAccepted: boolean): void {
    this.#requests += 1;
    if (isAccepted) this.#delivered += points;
    else {
      this.#failedRequests += 1;
      this.#resent += points;
    }
  }
}
