import type { Clock } from '../../../system/time/clock.ts';
import { isGatewayException } from './modbus-codec.ts';

interface Unit {
  /** The number of requests in a row without an answer of the unit, and the time of the first one. */
  failures: number;
  sinceMs: number;
  /** Until then, requests end like the last one. */
  untilMs: number;
  last: Promise<Uint8Array> | undefined;
}

/** A single answer may be lost. */
const TOLERATED = 1;
/** A request that ends sooner does not delay other units. */
const LONG_MS = 500;
const FIRST_PAUSE_MS = 5_000;
const LONGEST_PAUSE_MS = 60_000;

/**
 * Keeps a silent unit from holding the connection while other units answer: after two long requests without an answer
 * it gets one request per pause, which grows to a minute.
 */
export class SilentUnits {
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  readonly #units = new Map<number, Unit>();
  /** The time of the last answer of any unit. */
  #answeredMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock;
  }

  /** Makes a request to a unit, or repeats its last result during a pause. Requests come one after the other. */
  async ask(number: number, request: () => Promise<Uint8Array>): Promise<Uint8Array> {
    const unit = this.#units.get(number) ?? { failures: 0, sinceMs: 0, untilMs: 0, last: undefined };
    this.#units.set(number, unit);
    const startMs = this.#clock.monotonicMs();
    if (unit.last !== undefined && startMs < unit.untilMs && this.#answeredMs > unit.sinceMs) return unit.last;
    unit.last = request();
    const isAnswered = await unit.last.then(
      (pdu) => !isGatewayException(pdu),
      () => false,
    );
    const endMs = this.#clock.monotonicMs();
    if (isAnswered) {
      unit.failures = 0;
      this.#answeredMs = endMs;
    } else if (endMs - startMs >= LONG_MS) {
      if (unit.failures === 0) unit.sinceMs = startMs;
      unit.failures += 1;
      const pauseMs = FIRST_PAUSE_MS * 2 ** (unit.failures - TOLERATED - 1);
      if (unit.failures > TOLERATED) unit.untilMs = endMs + Math.min(LONGEST_PAUSE_MS, pauseMs);
    }
    return unit.last;
  }
}
