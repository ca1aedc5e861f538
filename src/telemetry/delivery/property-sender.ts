import { parseExactly } from '../../system/json-value.ts';
import type { Log } from '../../system/log/log.ts';
import type { Clock } from '../../system/time/clock.ts';
import type { ValueService } from '../ports.ts';
import type { DatapointQueue } from '../queue/spool.ts';
import type { CircuitBreaker } from './circuit-breaker.ts';
import { classifyFailure } from './classify-failure.ts';
import type { QueuedProperty } from './property-queue.ts';
import { Suspensions } from './suspension.ts';

export interface PropertyCourierDeps {
  readonly service: Pick<ValueService, 'setProperty'>;
  readonly spool: DatapointQueue;
  readonly gate: CircuitBreaker;
  readonly clock: Clock;
  readonly log: Log;
}

const LONGEST_SLEEP_MS = 60_000;

/** Delivers property values to the service: the last value of each property. */
export class PropertySender {
  readonly #deps: PropertyCourierDeps;
  readonly #parking = new Suspensions();

  constructor(deps: PropertyCourierDeps) {
    this.#deps = deps;
  }

  /** Delivers until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { spool, clock } = this.#deps;
    while (!signal.aborted) {
      await this.deliverAll(signal);
      const restMs = Math.min(LONGEST_SLEEP_MS, this.#parking.msUntilFirst(clock.monotonicMs()) + 1);
      await spool.arrival.property.wait(restMs, clock, signal);
    }
  }

  tryAgain(): void {
    this.#parking.clear();
    this.#deps.spool.arrival.property.notify();
  }

  async deliverAll(signal: AbortSignal): Promise<void> {
    const { spool, clock } = this.#deps;
    const next = (): QueuedProperty | undefined => spool.takeProperty(this.#parking.suspended(clock.monotonicMs()));
    for (let property = next(); property !== undefined; property = next()) await this.#deliver(property, signal);
  }

  async #deliver(property: QueuedProperty, signal: AbortSignal): Promise<void> {
    const { service, spool, gate, clock, log } = this.#deps;
    const pass = await gate.acquire(signal);
    try {
      await service.setProperty(property.id, parseExactly(property.text), signal);
      gate.recordSuccess();
      spool.settleProperty(property);
    } catch (error) {
      signal.throwIfAborted();
      const verdict = classifyFailure(error);
      const fields = { property: property.id, reason: verdict.reason };
      switch (verdict.kind) {
        case 'wait':
          return gate.recordFailure(pass, verdict.reason, verdict.retryAfterMs);
        case 'unknown':
          log.warn(fields, 'the service does not know this property; its value waits');
          return this.#parking.suspend(property.id, clock.monotonicMs());
        case 'split':
        case 'refused':
          log.warn(fields, 'the service refuses the value of a property; it is given up');
          spool.settleProperty(property);
      }
    }
  }
}
