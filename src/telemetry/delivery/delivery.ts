import type { DeliveryStats } from '../../control/telemetry-protocol.ts';
import type { Log } from '../../system/log/log.ts';
import type { Clock } from '../../system/time/clock.ts';
import type { ValueService } from '../ports.ts';
import type { Batch } from '../queue/batch.ts';
import type { DatapointQueue } from '../queue/spool.ts';
import { CircuitBreaker } from './circuit-breaker.ts';
import { DatapointSender } from './datapoint-sender.ts';
import { PropertySender } from './property-sender.ts';
import { Suspensions } from './suspension.ts';

export interface DeliveryDeps {
  readonly spool: DatapointQueue;
  readonly service: ValueService;
  readonly clock: Clock;
  /** 0 ≤ random() < 1 */
  readonly random: () => number;
  readonly log: Log;
  /** The most points in one request. */
  readonly batchPoints: number;
  /** Live points of an event are gathered for so long, unless they are urgent. */
  readonly gatherMs: number;
  readonly backlogPointsPerSecond: number;
  /** While this is true the backlog waits, since the line belongs to an update. */
  readonly isLineTaken: () => boolean;
}

/** How often the backlog checks whether the update still has the line. */
const LOOK_MS = 1_000;
const LONGEST_SLEEP_MS = 60_000;

/** Delivers what the spool holds to the service: live points, the backlog and properties, each in a loop of its own. */
export class Delivery {
  readonly #deps: DeliveryDeps;
  readonly #gate: CircuitBreaker;
  readonly #parking = new Suspensions();
  readonly #properties: PropertySender;
  readonly #couriers: Readonly<Record<Batch['lane'], DatapointSender>>;
  #delivered = 0;
  #requests = 0;
  #failedRequests = 0;
  #resent = 0;

  constructor(deps: DeliveryDeps) {
    this.#deps = deps;
    this.#gate = new CircuitBreaker(deps);
    this.#properties = new PropertySender({ ...deps, gate: this.#gate });
    const onPost = (points: number, isAccepted: boolean): void => this.#note(points, isAccepted);
    const courierDeps = { ...deps, gate: this.#gate, onPost };
    this.#couriers = { live: new DatapointSender(courierDeps), backlog: new DatapointSender(courierDeps) };
  }

  /** Delivers until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#runLive(signal), this.#runBacklog(signal), this.#properties.run(signal)]);
  }

  /** Tries at once what was parked, and what the gate keeps back. */
  tryAgain(): void {
    const { live, backlog } = this.#deps.spool.arrival;
    this.#gate.recordSuccess();
    this.#parking.clear();
    this.#properties.tryAgain();
    live.notify();
    backlog.notify();
  }

  /** Delivers all live points. */
  async deliverLive(signal: AbortSignal): Promise<void> {
    for (let points = 1; points > 0;) points = await this.#deliverNext('live', signal);
  }

  /** Delivers everything on disk, at the configured pace. */
  async deliverBacklog(signal: AbortSignal): Promise<void> {
    const { clock, isLineTaken, backlogPointsPerSecond } = this.#deps;
    for (;;) {
      while (isLineTaken()) await clock.sleep(LOOK_MS, signal);
      const startedMs = clock.monotonicMs();
      const points = await this.#deliverNext('backlog', signal);
      if (points === 0) return;
      const pauseMs = (points / backlogPointsPerSecond) * 1_000 - (clock.monotonicMs() - startedMs);
      if (pauseMs > 0) await clock.sleep(pauseMs, signal);
    }
  }

  async deliverProperties(signal: AbortSignal): Promise<void> {
    await this.#properties.deliverAll(signal);
  }

  figures(): DeliveryStats {
    return {
      delivered: this.#delivered,
      requests: this.#requests,
      failedRequests: this.#failedRequests,
      resent: this.#resent,
      suspendedEvents: [...this.#parking.suspended(this.#deps.clock.monotonicMs())],
      error: this.#gate.reason,
    };
  }

  async #runLive(signal: AbortSignal): Promise<void> {
    const { spool, clock, gatherMs } = this.#deps;
    while (!signal.aborted) {
      await this.deliverLive(signal);
      await spool.arrival.urgent.wait(gatherMs, clock, signal);
      if (!spool.hasLive) await spool.arrival.live.wait(this.#restMs, clock, signal);
    }
  }

  async #runBacklog(signal: AbortSignal): Promise<void> {
    const { spool, clock } = this.#deps;
    while (!signal.aborted) {
      await this.deliverBacklog(signal);
      await spool.arrival.backlog.wait(this.#restMs, clock, signal);
    }
  }

  get #restMs(): number {
    return Math.min(LONGEST_SLEEP_MS, this.#parking.msUntilFirst(this.#deps.clock.monotonicMs()) + 1);
  }

  /** Delivers the next batch. Returns the number of its points; 0: there is nothing to deliver. */
  async #deliverNext(lane: Batch['lane'], signal: AbortSignal): Promise<number> {
    const { spool, clock, batchPoints } = this.#deps;
    const parked = this.#parking.suspended(clock.monotonicMs());
    const batch = lane === 'live' ? spool.takeLive(batchPoints, parked) : spool.takeBacklog(batchPoints, parked);
    if (batch === undefined) return 0;
    try {
      const end = await this.#couriers[lane].deliver(batch, signal);
      if (end === 'parked') this.#parking.suspend(batch.event, clock.monotonicMs());
      return batch.points.length;
    } finally {
      spool.release(batch);
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
